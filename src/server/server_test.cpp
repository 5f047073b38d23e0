#include "server/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <thread>

#include "server/redis/session.h"
#include "server/redis/test_map_key_values.h"

namespace perdure::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Client {
 public:
  explicit Client(const Address& address) : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = connect(descriptor_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { close(descriptor_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] bool is_connected() const noexcept { return is_connected_; }
  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  /// So many bytes, or what comes until the end.
  [[nodiscard]] std::string receive(std::size_t bytes = ~std::size_t{0}) const {
    std::string text;
    std::array<char, 65536> piece{};
    while (text.size() < bytes) {
      const std::size_t wanted = std::min(piece.size(), bytes - text.size());
      const ssize_t got = recv(descriptor_, piece.data(), wanted, 0);
      if (got <= 0) break;
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int descriptor_;
  bool is_connected_ = false;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    service_.values = &values_;
    options_.threads = 3;
  }
  void start() {
    Listener listener;
    listener.address = {"127.0.0.1", 0};
    listener.protocol = "redis";
    listener.make_session = [this] { return std::make_unique<redis::RedisSession>(service_); };
    listener.refusal = "-ERR too many\r\n";
    server_ = Server::open({listener}, options_).value();
    address_ = server_->addresses().front();
    thread_ = std::jthread([this] { server_->run(); });
  }
  void stop() {
    server_->stop();
    thread_.join();
  }
  void TearDown() override {
    if (thread_.joinable()) stop();
  }

  redis::MapKeyValues values_;
  redis::RedisService service_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  Address address_;
  std::jthread thread_;
};

TEST_F(ServerTest, ManyClientsOnManyThreadsGetTheirOwnReplies) {
  start();
  std::vector<std::jthread> threads;
  for (int n = 0; n < 8; ++n)
    threads.emplace_back([this, n] {
      for (int round = 0; round < 5; ++round) {
        const Client client(address_);
        std::string expected;
        for (int i = 0; i < 300; ++i) {
          const std::string value = std::to_string(n) + "-" + std::to_string(i);
          client.send("set " + std::to_string(n) + " " + value + "\r\nget " + std::to_string(n) +
                      "\r\n");
          expected += "+OK\r\n$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
        }
        EXPECT_EQ(client.receive(expected.size()), expected);
      }
    });
  threads.clear();
  EXPECT_EQ(values_.size(), 8U);
}

TEST_F(ServerTest, RepliesThatExceedTheMarkArriveWhole) {
  start();
  const std::string value(3U << 20, 'v');
  const Client client(address_);
  client.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$" + std::to_string(value.size()) + "\r\n" + value +
              "\r\n");
  std::string requests, expected = "+OK\r\n";
  for (int i = 0; i < 20; ++i) {
    requests += "get k\r\n";
    expected += "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }
  client.send(requests);
  EXPECT_TRUE(client.receive(expected.size()) == expected);
}

TEST_F(ServerTest, ABrokenRequestIsAnsweredAlthoughTheClientStillSends) {
  start();
  const Client client(address_);
  client.send("*1\r\n$x\r\n" + std::string(200'000, 'x'));
  EXPECT_EQ(client.receive(), "-ERR Protocol error: invalid bulk length\r\n");
}

TEST_F(ServerTest, OneConnectionTooManyIsToldSo) {
  options_.max_connections = 1;
  start();
  const Client first(address_);
  first.send("ping\r\n");
  EXPECT_EQ(first.receive(7), "+PONG\r\n");
  EXPECT_EQ(Client(address_).receive(), "-ERR too many\r\n");
}

TEST_F(ServerTest, TimeoutsEndWhatDoesNotGoOn) {
  options_.timeout = std::chrono::milliseconds(150);
  start();
  const Client idle(address_);
  const Client half(address_);
  half.send("*2\r\n$3\r\nGET\r\n");
  EXPECT_THAT(half.receive(), IsEmpty());
  idle.send("ping\r\n");
  EXPECT_EQ(idle.receive(7), "+PONG\r\n");
}

TEST_F(ServerTest, StoppingClosesConnectionsAndThePort) {
  start();
  const Client client(address_);
  client.send("set k v\r\n");
  EXPECT_EQ(client.receive(5), "+OK\r\n");
  stop();
  EXPECT_THAT(client.receive(), IsEmpty());
  EXPECT_FALSE(Client(address_).is_connected());
}

TEST(ServerAddresses, ThatAreTakenAreRefused) {
  Listener listener;
  listener.address = {"127.0.0.1", 0};
  const auto first = Server::open({listener}, {}).value();
  listener.address = first->addresses().front();
  EXPECT_EQ(Server::open({listener}, {}).error().code, ErrorCode::busy);
  const std::string file = ::testing::TempDir() + "perdure_server_" + std::to_string(getpid());
  std::filesystem::create_directory(file);
  listener.address = {"", 0, file};
  EXPECT_THAT(Server::open({listener}, {}).error().line(), HasSubstr("is no socket"));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace perdure::server

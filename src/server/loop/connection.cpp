#include "server/loop/connection.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "server/loop/deadline.h"
#include "server/loop/input_buffer.h"

namespace perdure::server::loop {
namespace {

namespace asio = boost::asio;
using ErrorOfSystem = boost::system::error_code;
using TlsStream = asio::ssl::stream<Socket>;

// How long a client may take to notice that the connection ends.
constexpr auto farewell_time = std::chrono::seconds(1);
constexpr std::size_t kept_output_bytes = 1U << 20;

bool is_departure(const ErrorOfSystem& error) {
  return error == asio::error::eof || error == asio::error::connection_reset ||
         error == asio::error::broken_pipe || error == asio::ssl::error::stream_truncated;
}

template <class Stream>
class ConnectionOf final : public Connection,
                           public std::enable_shared_from_this<ConnectionOf<Stream>> {
 public:
  static constexpr bool has_tls = std::is_same_v<Stream, TlsStream>;

  ConnectionOf(Worker& worker, Stream stream, Conversation conversation)
      : worker_(worker), stream_(std::move(stream)), conversation_(std::move(conversation)) {}

  void start() override {
    if constexpr (has_tls) {
      request_.start(worker_.now());
      stream_.async_handshake(
          asio::ssl::stream_base::server, [self = this->shared_from_this()](ErrorOfSystem error) {
            if (self->is_closed_) return;
            if (error) return self->abort("the TLS handshake failed: " + error.message());
            self->request_.stop();
            self->is_secure_ = true;
            self->guarded([&] { self->receive(); });
          });
    } else {
      guarded([this] { receive(); });
    }
  }

  void finish() override {
    const bool is_idle = input_.empty() && replies_.empty() && !is_sending_ && !is_ending_;
    if (is_idle || (has_tls && !is_secure_)) return close();
    receives_ = false;
    guarded([this] { serve(); });
  }

  void abort(std::string_view reason) override {
    if (!is_closed_) worker_.shared().log.note(conversation_.name, reason);
    close();
  }

  void check_deadlines(Worker::Time now) override {
    const auto timeout = worker_.shared().timeout;
    if (farewell_.has_passed(now, farewell_time)) return close();
    if (reply_.has_passed(now, timeout)) return abort("the client does not read its replies");
    if (!request_.has_passed(now, timeout)) return;
    abort(has_tls && !is_secure_ ? "the TLS handshake takes too long"
                                 : "a request was begun and not finished in time");
  }

 private:
  /// Handlers run this: an exception, such as no memory for a long request, ends one connection.
  template <class Function>
  void guarded(Function function) {
    if (is_closed_) return;
    try {
      function();
    } catch (const std::exception& error) {
      abort(std::string("the request could not be handled: ") + error.what());
    }
  }

  void receive() {
    if (is_receiving_ || is_ending_ || !receives_) return;
    is_receiving_ = true;
    const auto room = input_.prepare();
    stream_.async_read_some(
        asio::buffer(room.data(), room.size()),
        [self = this->shared_from_this()](ErrorOfSystem error, std::size_t bytes) {
          self->is_receiving_ = false;
          self->guarded([&] { self->on_received(error, bytes); });
        });
  }

  void on_received(const ErrorOfSystem& error, std::size_t bytes) {
    if (is_ending_) return end();
    input_.commit(bytes);
    if (!error) {
      request_.note(worker_.now(), bytes);
      return serve();
    }
    if (!receives_) return serve();  // it was cancelled
    if (!is_departure(error)) return abort(error.message());
    if (!input_.empty()) note_end("the client left in the middle of a request");
    is_gone_ = error != asio::error::eof;
    is_ending_ = true;
    end();
  }

  /// Consumes what can be consumed, then sends, and receives more.
  void serve() {
    if (is_ending_) return end();
    bool has_taken = false;
    bool is_incomplete = input_.empty();
    while (!is_incomplete && !is_ending_ && replies_.size() <= output_mark_bytes) {
      const auto taken = conversation_.session->consume(input_.view(), replies_);
      if (!taken) {
        note_end(taken.error().line());
        break;
      }
      input_.take(*taken);
      has_taken = has_taken || *taken != 0;
      is_ending_ = conversation_.session->wants_end();
      is_incomplete = *taken == 0 || input_.empty();
    }
    if (is_incomplete && input_.size() > max_frame_bytes)
      note_end("a request is longer than 48 MB");
    if (is_incomplete && !receives_) is_ending_ = true;
    if (is_ending_) return end();
    send();
    const bool wants_input = is_incomplete && replies_.size() <= output_mark_bytes;  // C1
    watch_request(has_taken, wants_input);
    if (wants_input) receive();
  }

  /// The deadline of a request begins with its first byte (C2).
  void watch_request(bool has_taken, bool wants_input) {
    if (input_.empty() || !wants_input) return request_.stop();
    if (has_taken || !request_.is_running()) request_.start(worker_.now());
  }

  void send() {
    if (is_sending_ || replies_.empty()) return;
    is_sending_ = true;
    sent_.clear();
    if (sent_.capacity() > kept_output_bytes) sent_ = {};
    sent_.swap(replies_);
    reply_.start(worker_.now());
    send_rest(0);
  }

  // Piece by piece, because the deadline counts what the client takes.
  void send_rest(std::size_t from) {
    stream_.async_write_some(
        asio::buffer(sent_.data() + from, sent_.size() - from),
        [self = this->shared_from_this(), from](ErrorOfSystem error, std::size_t bytes) {
          self->guarded([&] { self->on_sent(error, from + bytes, bytes); });
        });
  }

  void on_sent(const ErrorOfSystem& error, std::size_t up_to, std::size_t bytes) {
    if (error) return is_departure(error) ? close() : abort(error.message());
    reply_.note(worker_.now(), bytes);
    if (up_to < sent_.size()) return send_rest(up_to);
    is_sending_ = false;
    reply_.stop();
    if (is_ending_) return end();
    // Requests may wait in the input since the replies exceeded their mark.
    serve();
  }

  /// The connection is to end for this reason once the replies are sent.
  void note_end(std::string_view reason) {
    worker_.shared().log.note(conversation_.name, reason);
    is_ending_ = true;
  }

  /// What is left to do before the end, one thing after the other; each comes back here.
  void end() {
    request_.stop();
    if (is_gone_) return close();
    if (is_sending_) return;
    if (!replies_.empty()) return send();
    if (farewell_.is_running()) return;
    if (is_receiving_) {
      ErrorOfSystem ignored;
      stream_.lowest_layer().cancel(ignored);
      return;
    }
    say_farewell();
  }

  // Closed at once, a socket with unread input would make the system reset the connection, and the
  // last replies could be lost. So the client is told that nothing follows, and gets some time.
  void say_farewell() {
    farewell_.start(worker_.now());
    if constexpr (has_tls) {
      stream_.async_shutdown([self = this->shared_from_this()](ErrorOfSystem) { self->close(); });
    } else {
      ErrorOfSystem error;
      stream_.shutdown(Socket::shutdown_send, error);
      error ? close() : drain();
    }
  }

  void drain() {
    input_.take(input_.size());
    const auto room = input_.prepare();
    stream_.async_read_some(asio::buffer(room.data(), room.size()),
                            [self = this->shared_from_this()](ErrorOfSystem error, std::size_t) {
                              self->guarded([&] { error ? self->close() : self->drain(); });
                            });
  }

  void close() {
    if (is_closed_) return;
    is_closed_ = is_ending_ = true;
    ErrorOfSystem ignored;
    stream_.lowest_layer().close(ignored);
    worker_.remove(this->shared_from_this());
  }

  Worker& worker_;
  Stream stream_;
  Conversation conversation_;
  InputBuffer input_;
  std::string replies_;  ///< not yet being sent
  std::string sent_;     ///< being sent
  Deadline request_;     ///< a request that has begun, or the handshake
  Deadline reply_;
  Deadline farewell_;
  bool is_secure_ = false;  ///< the handshake has succeeded
  bool receives_ = true;    ///< false: the server stops
  bool is_receiving_ = false;
  bool is_sending_ = false;
  bool is_ending_ = false;
  bool is_gone_ = false;  ///< the client is not there anymore
  bool is_closed_ = false;
};

}  // namespace

std::shared_ptr<Connection> make_connection(Worker& worker, Socket socket, asio::ssl::context* tls,
                                            Conversation conversation) {
  if (tls == nullptr)
    return std::make_shared<ConnectionOf<Socket>>(worker, std::move(socket),
                                                  std::move(conversation));
  return std::make_shared<ConnectionOf<TlsStream>>(worker, TlsStream(std::move(socket), *tls),
                                                   std::move(conversation));
}

}  // namespace perdure::server::loop

// The words that generated e-mail addresses and URLs consist of.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace perdure::workload {

inline constexpr std::array<std::string_view, 64> given_names{
    "ada",   "alma",  "amir",  "anja",  "aron",  "asha",  "bela",  "bruno", "carla", "chen",
    "clio",  "dana",  "davit", "dora",  "edda",  "elio",  "emil",  "enno",  "erik",  "esra",
    "eva",   "fadi",  "femi",  "finn",  "flora", "gita",  "greta", "hana",  "hugo",  "ida",
    "ilse",  "imre",  "iris",  "ivo",   "jana",  "jonas", "kaito", "karin", "kofi",  "lea",
    "lena",  "leo",   "lin",   "lotte", "luis",  "maja",  "marek", "mei",   "mira",  "nadia",
    "nils",  "noor",  "olga",  "omar",  "otto",  "paula", "petra", "rafa",  "rosa",  "samir",
    "selma", "tarek", "vera",  "yuki"};

/// A family name is a first and a second part.
inline constexpr std::array<std::string_view, 16> family_starts{
    "al",  "ber", "dor", "fal", "gar",  "hol", "kes", "lind",
    "mar", "nor", "pel", "ros", "sand", "tor", "vel", "wes"};
inline constexpr std::array<std::string_view, 16> family_ends{
    "ado", "ami", "berg", "dal", "ek",  "feld", "holt", "ini",
    "ke",  "man", "ner",  "ova", "rup", "son",  "tov",  "wick"};

/// A domain of mail is a first and a second part.
inline constexpr std::array<std::string_view, 16> domain_starts{
    "m",   "post", "net", "kal", "lum", "ori",  "pix", "qua",
    "riv", "sol",  "tal", "uno", "ver", "wave", "xen", "zed"};
inline constexpr std::array<std::string_view, 16> domain_ends{
    "ail", "a",  "box", "co", "dia", "el",  "fix", "go",
    "hub", "io", "ka",  "lo", "mo",  "nor", "pa",  "run"};

inline constexpr std::array<std::string_view, 64> plain_words{
    "amber",  "anchor",  "apple",  "autumn", "basket", "beacon",  "bridge",   "bronze",
    "candle", "canyon",  "carbon", "cedar",  "cherry", "cloud",   "copper",   "coral",
    "cotton", "crystal", "desert", "dragon", "eagle",  "ember",   "engine",   "falcon",
    "field",  "flower",  "forest", "garden", "glass",  "golden",  "granite",  "harbor",
    "hazel",  "island",  "ivory",  "jasper", "jungle", "kettle",  "ladder",   "lantern",
    "lemon",  "maple",   "marble", "meadow", "mirror", "morning", "mountain", "ocean",
    "orange", "orchard", "paper",  "pepper", "planet", "quartz",  "river",    "saddle",
    "silver", "spring",  "stone",  "summer", "timber", "valley",  "velvet",   "winter"};

[[nodiscard]] constexpr std::size_t longest_of(std::span<const std::string_view> words) noexcept {
  std::size_t longest = 0;
  for (const std::string_view word : words) longest = std::max(longest, word.size());
  return longest;
}

}  // namespace perdure::workload

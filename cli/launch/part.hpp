// The part of a job for one host, and how its ranks end, as texts between the launcher and its agents.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/local_ranks.hpp"
#include "launch/ranks.hpp"

namespace kolo::cli {

std::string encode_part(const std::string& directory, const LocalPart& part);

struct PartAndPlace {
  std::string directory;
  LocalPart part;
};
/// nullopt for an invalid text.
std::optional<PartAndPlace> decode_part(std::string_view text);

/// All members except the rank.
std::string encode_ending(const Ending& ending);
std::optional<Ending> decode_ending(std::string_view text);

/// The environment of this process as "NAME=value".
std::vector<std::string> own_environment();

}  // namespace kolo::cli

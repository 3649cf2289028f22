#include "launch/environment.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>

namespace kolo::cli {
namespace {

/// An outer launcher's store and key are not those of this job.
bool is_of_outer_job(std::string_view variable) {
  return variable.starts_with("TORCHELASTIC_") || variable.starts_with("KOLO_STORE") ||
         variable.starts_with("KOLO_KEY");
}

bool is_about_terminals(std::string_view variable) {
  return variable.starts_with("TERM=") || variable.starts_with("COLORTERM=") ||
         variable.starts_with("NO_COLOR=");
}

}  // namespace

std::vector<std::string> variables_to_pass(const std::vector<std::string>& wanted, bool terminal,
                                           std::vector<std::string>& missing) {
  std::vector<std::string> passed;
  for (char** at = environ; *at; ++at) {
    const std::string_view entry(*at);
    if (entry.starts_with("KOLO_") || entry.starts_with("OMP_NUM_THREADS=") ||
        (terminal && is_about_terminals(entry)))
      passed.emplace_back(entry);
  }
  for (const std::string& one : wanted) {
    const char* value = std::getenv(one.c_str());
    if (one.find('=') != std::string::npos) {
      passed.push_back(one);
    } else if (value) {
      passed.push_back(one + "=" + value);
    } else {
      missing.push_back(one);
    }
  }
  std::erase_if(passed, is_of_outer_job);
  return passed;
}

std::vector<std::string> rank_environment(const RankPlace& place, std::string_view marks,
                                          const std::vector<std::string>& variables) {
  std::map<std::string, std::string> merged;
  const auto set = [&](std::string_view entry) {
    const auto equals = entry.find('=');
    if (equals != std::string_view::npos)
      merged[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  };
  for (char** at = environ; *at; ++at) {
    if (!is_of_outer_job(*at)) set(*at);
  }
  merged["kolo_run"] = marks;
  merged["RANK"] = std::to_string(place.rank);
  merged["WORLD_SIZE"] = std::to_string(place.job_size);
  merged["LOCAL_RANK"] = std::to_string(place.local_rank);
  merged["LOCAL_WORLD_SIZE"] = std::to_string(place.local_size);
  if (place.local_size > 1) merged.try_emplace("OMP_NUM_THREADS", "1");
  for (const std::string& entry : variables) set(entry);
  std::vector<std::string> list;
  for (const auto& [name, value] : merged) list.push_back(name + "=" + value);
  return list;
}

}  // namespace kolo::cli

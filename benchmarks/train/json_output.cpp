#include "train/json_output.hpp"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace kolo::bench {

void JsonOutput::add_to(CLI::App& command) {
  command.add_flag("--json", prints_, "One JSON object");
  command.add_option("--output", file_, "Writes this object to a file too");
}

bool JsonOutput::write(const nlohmann::json& object) const {
  const std::string text = object.dump();
  if (!file_.empty()) {
    std::ofstream file(file_);
    if (!(file << text << '\n' << std::flush)) throw std::runtime_error("cannot write " + file_);
  }
  if (prints_) fmt::print("{}\n", text);
  return prints_;
}

}  // namespace kolo::bench

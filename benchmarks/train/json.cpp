#include "train/json.hpp"

namespace kolo::bench {

void JsonOutput::add_to(CLI::App& command) {
  command.add_flag("--json", prints_, "One JSON object");
  command.add_option("--output", path_, "Writes this object to a file too");
}

void JsonOutput::open() {
  if (path_.empty()) return;
  file_.open(path_);
  if (!file_) throw std::runtime_error("cannot write " + path_);
}

bool JsonOutput::write(const nlohmann::json& object) {
  const std::string text = object.dump();
  if (file_.is_open() && !(file_ << text << '\n' << std::flush))
    throw std::runtime_error("cannot write " + path_);
  if (prints_) fmt::print("{}\n", text);
  return prints_;
}

}  // namespace kolo::bench

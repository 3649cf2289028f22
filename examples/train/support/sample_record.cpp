#include "support/sample_record.hpp"

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kolo/kolo.hpp"
#include "support/communication.hpp"

namespace support {
namespace {

std::int64_t now() {
  return std::chrono::system_clock::now().time_since_epoch().count();
}

}  // namespace

SampleRecord::SampleRecord(const std::string& folder) {
  if (folder.empty()) return;
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string path = folder + "/" + host + "-" + std::to_string(::getpid()) + ".jsonl";
  file_.open(path);
  if (!file_) throw std::runtime_error(path + " cannot be written");
}

void SampleRecord::number_group(kolo::Communicator& group) {
  group_ = now();
  group.broadcast(kolo::Buffer(&group_, 1, kolo::DType::int64), 0);
}

nlohmann::json SampleRecord::begin_group(const kolo::ElasticChange& change) {
  nlohmann::json line{{"group", group_},      {"time", now()},           {"rank", change.rank},
                      {"ranks", change.size}, {"step", change.step},     {"ranks_before", change.size_before},
                      {"why", change.why},    {"origin", change.origin}, {"lost_s", seconds(change.lost)}};
  write(line);
  return line;
}

void SampleRecord::take(std::uint64_t step, std::uint64_t epoch, const std::vector<std::int64_t>& samples) {
  if (file_.is_open())
    write({{"group", group_}, {"time", now()}, {"step", step}, {"epoch", epoch}, {"samples", samples}});
}

void SampleRecord::write(const nlohmann::json& line) {
  if (file_.is_open()) file_ << line << std::endl;
}

}  // namespace support

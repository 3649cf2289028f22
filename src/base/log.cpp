#include "base/log.hpp"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <utility>

#include "base/config.hpp"
#include "base/file_size_limit.hpp"
#include "kolo/trouble.hpp"

namespace kolo {
namespace {

/// Writes to standard error only what it takes at once. A stopped terminal or a full pipe must not block a
/// rank that other ranks wait for. A pipe without a reader must not end the process. The next line that is
/// written says how many lines were lost.
class Stderr : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    const FileSizeLimit limit;  // standard error may be a file
    if (!takes_more()) {
      ++lost_;
      return;
    }
    if (const std::uint64_t lost = std::exchange(lost_, 0)) {
      const std::string text = fmt::format("{} {} of this log lost: standard error took no more", lost,
                                           lost == 1 ? "line" : "lines");
      out_.log({line.logger_name, spdlog::level::warn, with_code(text)});
    }
    if (line.level < spdlog::level::warn) return out_.log(line);
    const std::string text = with_code(fmt::to_string(line.payload));
    spdlog::details::log_msg coded = line;
    coded.payload = text;
    out_.log(coded);
  }

  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    out_.set_formatter(std::move(formatter));
  }
  void set_pattern_(const std::string& pattern) override { out_.set_pattern(pattern); }
  void flush_() override { out_.flush(); }

  static bool takes_more() {
    pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
    return poll(&standard_error, 1, 0) == 1 && standard_error.revents == POLLOUT;
  }

  spdlog::sinks::stderr_color_sink_mt out_;
  std::uint64_t lost_ = 0;
};

}  // namespace

spdlog::logger& log() {
  // Never destroyed: a program may end while it has communicators, whose threads still log.
  static spdlog::logger& logger = *[] {
    auto* const made = new spdlog::logger("kolo", std::make_shared<Stderr>());
    made->set_pattern("%^kolo %l%$: %v");
    made->set_level(spdlog::level::from_str(config().log_level));
    return made;
  }();
  return logger;
}

}  // namespace kolo

#include "base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>

#include "base/config.hpp"

namespace kolo {

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("kolo", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^kolo %l%$: %v");
    made->set_level(spdlog::level::from_str(config().log_level));
    return made;
  }();
  return *logger;
}

}  // namespace kolo

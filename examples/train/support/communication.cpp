#include "support/communication.hpp"

#include <nlohmann/json.hpp>

namespace support {

nlohmann::json to_json(const Communication& communication) {
  return {{"all_reduces", communication.statistics.all_reduces},
          {"hidden_seconds", seconds(communication.statistics.hidden)},
          {"exposed_seconds", seconds(communication.statistics.exposed)},
          {"gradient_bytes_per_step", communication.gradient_bytes_per_step},
          {"sent_bytes_per_step", communication.sent_bytes_per_step},
          {"ring_bytes_per_step", communication.ring_bytes_per_step()}};
}

}  // namespace support

#include "train/trace.hpp"

#include <functional>
#include <numeric>

#include "train/json.hpp"

namespace kolo::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TracedParameter, name, shape, ready)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trace, model, machine, batch, tokens, forward, backward, optimizer,
                                   parameters)

std::uint64_t Trace::bytes() const {
  std::uint64_t result = 0;
  for (const TracedParameter& parameter : parameters) {
    result += 4 * static_cast<std::uint64_t>(std::accumulate(parameter.shape.begin(), parameter.shape.end(),
                                                             std::int64_t{1}, std::multiplies<>()));
  }
  return result;
}

Trace Trace::scaled(double factor) const {
  Trace result = *this;
  result.forward *= factor;
  result.backward *= factor;
  result.optimizer *= factor;
  for (TracedParameter& parameter : result.parameters) parameter.ready *= factor;
  return result;
}

Trace read_trace(const std::string& path) {
  return read_json(path, "trace", [](const nlohmann::json& json) {
    const Trace trace = json.get<Trace>();
    if (trace.parameters.empty()) throw std::runtime_error("it has no parameters");
    return trace;
  });
}

void write_trace(const std::string& path, const Trace& trace) {
  std::ofstream file(path);
  file << nlohmann::json(trace).dump(1) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace kolo::bench

#include "kolo/reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/reduction.hpp"
#include "kolo/error.hpp"

namespace kolo {

std::string_view name_of(ReduceOp op) noexcept {
  if (op == ReduceOp::custom) return "custom";
  return op < ReduceOp::custom ? kBuiltInOperations[static_cast<std::size_t>(op)].name : "unknown";
}

std::string why_not(DType dtype, ReduceOp op) {
  if (knows(dtype, op)) return {};
  return fmt::format("there is no {} of {}: {}", name_of(op), name_of(dtype),
                     kBuiltInOperations[static_cast<std::size_t>(op)].why_not_others);
}

bool parse_reduce_op(std::string_view name, ReduceOp& out) noexcept {
  const auto* const found = std::ranges::find(kBuiltInOperations, name, &BuiltInOperation::name);
  if (found == std::end(kBuiltInOperations)) return false;
  out = static_cast<ReduceOp>(found - kBuiltInOperations);
  return true;
}

Reduction Reduction::custom(CustomReduction reduction) {
  if (!reduction.combine) {
    const std::string name = reduction.name.empty() ? "without a name" : '"' + reduction.name + '"';
    throw InvalidArgumentError("custom reduction " + name + " has no combine function", {});
  }
  Reduction made(ReduceOp::custom);
  made.own_ = std::make_shared<const CustomReduction>(std::move(reduction));
  return made;
}

Reduction Reduction::premultiplied_sum(double factor) {
  Reduction made(ReduceOp::sum);
  made.has_factor_ = true;
  made.own_ = std::make_shared<const double>(factor);
  return made;
}

Reduction reduction_that_keeps(ReduceOp op, std::shared_ptr<const void> memory) {
  Reduction made(op);
  made.own_ = std::move(memory);
  return made;
}

std::string Reduction::name() const {
  if (has_factor_) return "premultiplied_sum";
  const CustomReduction* const custom = custom_reduction();
  return custom != nullptr && !custom->name.empty() ? custom->name : std::string(name_of(op_));
}

}  // namespace kolo

#include "kolo/reduction.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/names.hpp"
#include "base/reduction.hpp"
#include "kolo/error.hpp"

namespace kolo {
namespace {

constexpr std::string_view kReduceOpNames[] = {
#define KOLO_ROW(name, ...) #name,
    KOLO_REDUCE_OPS(KOLO_ROW)
#undef KOLO_ROW
        "custom"};

struct Domain {
  unsigned kinds = kAllNumbers;
  std::string_view why_not_others;
};
constexpr Domain kDomains[] = {
#define KOLO_ROW(name, NAME, kinds, why_not) {kinds, why_not},
    KOLO_REDUCE_OPS(KOLO_ROW)
#undef KOLO_ROW
        {}};

}  // namespace

std::string_view name_of(ReduceOp op) noexcept {
  return name_among(kReduceOpNames, op);
}

bool knows(DType dtype, ReduceOp op) noexcept {
  const auto kind = static_cast<unsigned>(element_type(dtype).kind);
  return (kDomains[static_cast<std::size_t>(op)].kinds >> kind & 1u) != 0;
}

std::string why_not(DType dtype, ReduceOp op) {
  if (knows(dtype, op)) return {};
  return fmt::format("there is no {} of {}: {}", name_of(op), name_of(dtype),
                     kDomains[static_cast<std::size_t>(op)].why_not_others);
}

bool parse_reduce_op(std::string_view name, ReduceOp& out) noexcept {
  // "custom" alone does not say which reduction.
  return name != name_of(ReduceOp::custom) && value_among(kReduceOpNames, name, out);
}

Reduction Reduction::custom(CustomReduction reduction) {
  if (!reduction.combine) {
    const std::string name = reduction.name.empty() ? "without a name" : '"' + reduction.name + '"';
    throw InvalidArgument("custom reduction " + name + " has no combine function", {});
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

Reduction sum_that_keeps(std::shared_ptr<const void> memory) {
  Reduction made(ReduceOp::sum);
  made.own_ = std::move(memory);
  return made;
}

std::string Reduction::name() const {
  if (has_factor_) return "premultiplied_sum";
  const CustomReduction* const custom = custom_reduction();
  return custom != nullptr && !custom->name.empty() ? custom->name : std::string(name_of(op_));
}

}  // namespace kolo

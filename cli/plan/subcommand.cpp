#include "plan/subcommand.hpp"

#include <fmt/format.h>

#include "kolo/error.hpp"

namespace kolo::plan {

void refuse_options_before(const CLI::App& plan, std::string_view name) {
  for (const CLI::Option* option : plan.get_options()) {
    if (option->count() == 0) continue;
    throw InvalidArgument(fmt::format("{} stands before {}: its options follow it", option->get_name(), name),
                          {});
  }
}

}  // namespace kolo::plan

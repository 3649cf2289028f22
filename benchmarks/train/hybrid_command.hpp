// The subcommand hybrid of bench_train.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace kolo::bench {

class HybridCommand {
 public:
  explicit HybridCommand(CLI::App& app);
  ~HybridCommand();

  bool parsed() const;
  /// Collective. `speaks`: this rank prints.
  void run(bool speaks) const;

 private:
  struct Settings;
  std::unique_ptr<Settings> settings_;
  CLI::App* command_;
};

}  // namespace kolo::bench

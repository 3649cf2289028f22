// The subcommand tensor of bench_train.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace kolo::bench {

class TensorCommand {
 public:
  explicit TensorCommand(CLI::App& app);
  ~TensorCommand();

  bool parsed() const;
  /// Collective. `speaks`: this rank prints.
  void run(bool speaks) const;

 private:
  struct Settings;
  std::unique_ptr<Settings> settings_;
  CLI::App* command_;
};

}  // namespace kolo::bench

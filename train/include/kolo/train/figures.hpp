// FigureWriter: the figures of a training run, as a table and for TensorBoard.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kolo {

/// A number of a training step: a loss, a learning rate, a time.
struct Figure {
  std::string_view name;  ///< printable ASCII without quotes; TensorBoard draws "train/loss" under "train"
  double value = 0;       ///< may be infinite or NaN
};

/// Writes the figures of a run into a folder, on one rank:
///
///     kolo::FigureWriter figures("runs/first");
///     ...
///     figures.write(step, {{"train/loss", loss}, {"learning rate", rate}});
///
/// `figures.csv` has a line for each figure: seconds since 1970, step, name and value, which reads as the
/// same float64 again. `events.out.tfevents.*` is an event file of TensorBoard (`tensorboard --logdir runs`),
/// which holds values as float32.
///
/// The operating system has all bytes when write() returns, so a process that is killed loses none; they are
/// not forced to the disk. A run that goes on in its folder appends to the table, where the last line of a
/// step counts, and begins an event file, after which TensorBoard drops older figures from its first step on.
/// Needs no libtorch. Not thread-safe; one process a folder.
class FigureWriter {
 public:
  /// Makes the folder if it is missing. Throws SystemError, with the path, if a file cannot be written.
  explicit FigureWriter(const std::string& folder);
  ~FigureWriter();
  FigureWriter(const FigureWriter&) = delete;
  FigureWriter& operator=(const FigureWriter&) = delete;

  /// Writes figures of a step with the present time. Throws InvalidArgumentError, and writes nothing, for a
  /// name that is not allowed; SystemError, with the path, on a full disk. Both files stay readable then, and
  /// a later call may succeed.
  void write(std::uint64_t step, std::span<const Figure> figures);
  void write(std::uint64_t step, std::initializer_list<Figure> figures) {
    write(step, std::span(figures.begin(), figures.size()));
  }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kolo

// How well a language model knows a text, and what it writes itself.
#pragma once

#include <cstdint>
#include <string>

#include "kolo/communicator.hpp"
#include "language_model/model.hpp"
#include "language_model/options.hpp"
#include "language_model/windows.hpp"

namespace language_model {

/// Collective: the mean bits per byte (cross-entropy to base 2) of each `every`-th window of the text; each
/// rank computes a part. A byte is predicted from half a context or more, but for those of the first half.
double bits_per_byte(Transformer::ContainedType& model, const Text& text, std::int64_t context,
                     std::int64_t every, kolo::Communicator& communicator);

/// `options.prompt` and `options.generate` bytes after it, drawn from what the model expects. The same seed
/// and the same weights give the same text. Bytes that are not UTF-8, or would control a terminal, are shown
/// as U+FFFD.
std::string generate(Transformer::ContainedType& model, const Options& options);

}  // namespace language_model

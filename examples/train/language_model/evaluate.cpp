#include "language_model/evaluate.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kolo/kolo.hpp"

namespace language_model {
namespace {

constexpr std::int64_t kWindowsAtOnce = 32;

/// Bytes as text that a terminal can show: what is not UTF-8 and what would control it becomes U+FFFD.
std::string shown(const std::string& bytes) {
  const auto is_harmless = [](unsigned char byte) { return byte >= ' ' || byte == '\n' || byte == '\t'; };
  std::string text;
  for (const char byte : bytes)
    text += is_harmless(static_cast<unsigned char>(byte)) && byte != 0x7f ? byte : '\xff';
  // The writer of JSON knows which bytes are UTF-8.
  return nlohmann::json::parse(
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

double bits_per_byte(Transformer::ContainedType& model, const Text& text, std::int64_t context,
                     std::int64_t every, kolo::Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  const at::Tensor windows = at::arange(0, text.overlapping(), every, at::kLong);
  const std::int64_t begin = windows.size(0) * communicator.rank() / communicator.size();
  const std::int64_t end = windows.size(0) * (communicator.rank() + 1) / communicator.size();
  std::array<double, 2> sums{};  // of nats, and of bytes
  for (std::int64_t i = begin; i < end; i += kWindowsAtOnce) {
    const at::Tensor numbers = windows.slice(0, i, std::min(i + kWindowsAtOnce, end));
    const Windows part = text.overlapping(numbers);
    const at::Tensor expected = at::log_softmax(model.forward(part.inputs).to(at::kFloat), -1);
    const at::Tensor nats = -expected.gather(2, part.targets.unsqueeze(2)).squeeze(2).to(at::kDouble);
    sums[0] += nats.slice(1, context / 2).sum().item().toDouble();
    sums[1] += static_cast<double>(numbers.size(0) * (context - context / 2));
    if (i == 0) {  // the first half of the first window has no window before it
      sums[0] += nats[0].slice(0, 0, context / 2).sum().item().toDouble();
      sums[1] += static_cast<double>(context / 2);
    }
  }
  communicator.all_reduce(kolo::Buffer(sums));
  return sums[0] / sums[1] / std::log(2.0);
}

std::string generate(Transformer::ContainedType& model, const Options& options) {
  const c10::NoGradGuard no_grad;
  auto random = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  std::string text = options.prompt.empty() ? "\n" : options.prompt;
  for (std::int64_t i = 0; i < options.generate; ++i) {
    const std::string_view seen = std::string_view(text).substr(
        text.size() - std::min<std::size_t>(text.size(), options.shape.context));
    const at::Tensor bytes = at::empty({1, static_cast<std::int64_t>(seen.size())}, at::kLong);
    std::ranges::copy(std::basic_string_view<unsigned char>(
                          reinterpret_cast<const unsigned char*>(seen.data()), seen.size()),
                      bytes.data_ptr<std::int64_t>());
    const at::Tensor scores = model.forward(bytes)[0][-1].to(at::kFloat) / options.temperature;
    const auto next = at::multinomial(at::softmax(scores, 0), 1, false, random).item().toLong();
    text += static_cast<char>(static_cast<unsigned char>(next));
  }
  return shown(text);
}

}  // namespace language_model

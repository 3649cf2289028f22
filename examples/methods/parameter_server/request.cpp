#include "methods/parameter_server/request.hpp"

#include <algorithm>

namespace kolo::methods {
namespace {

// The upper half of the first word: a header is not taken for one of another version, nor for an answer.
constexpr std::uint64_t kRequestMark = std::uint64_t{0x6B505301} << 32;
constexpr std::uint64_t kReplyMark = std::uint64_t{0x6B505302} << 32;
constexpr std::uint64_t kLowerHalf = 0xFFFFFFFF;

bool is_zero(std::span<const std::uint64_t> words) {
  return std::ranges::all_of(words, [](std::uint64_t word) { return word == 0; });
}

std::string number(const char* what, std::uint64_t found, std::uint64_t wanted) {
  return std::string(what) + " is " + std::to_string(found) + ", not " + std::to_string(wanted);
}

std::string fault_of(const Request& request, const RequestLimits& limits) {
  if (request.kind < RequestKind::hello || request.kind > RequestKind::goodbye)
    return "there is no request " + std::to_string(static_cast<std::uint64_t>(request.kind));
  if (request.worker != limits.worker) return number("the worker", request.worker, limits.worker);
  const bool pushes = is_push(request.kind);
  if (pushes && request.sequence == 0) return "a push has the number 0";
  if (const std::uint64_t elements = pushes ? limits.elements : 0; request.elements != elements)
    return number("the number of elements", request.elements, elements);
  const std::uint64_t most = pushes || request.kind == RequestKind::pull_rows ? limits.rows : 0;
  if (request.rows > most)
    return "there are " + std::to_string(most) + " rows, and " + std::to_string(request.rows) + " asked for";
  return {};
}

}  // namespace

Header pack(const Request& request) {
  return {kRequestMark | static_cast<std::uint64_t>(request.kind),
          request.worker,
          request.sequence,
          request.version,
          request.elements,
          request.rows};
}

std::optional<Request> parse_request(std::span<const std::uint64_t, kHeaderWords> words,
                                     const RequestLimits& limits, std::string& problem) {
  if ((words[0] & ~kLowerHalf) != kRequestMark || !is_zero(words.subspan<6>())) {
    problem = "it is no request of this version";
    return {};
  }
  const Request request{.kind = static_cast<RequestKind>(words[0] & kLowerHalf),
                        .worker = words[1],
                        .sequence = words[2],
                        .version = words[3],
                        .elements = words[4],
                        .rows = words[5]};
  problem = fault_of(request, limits);
  if (!problem.empty()) return {};
  return request;
}

Header pack(const Reply& reply) {
  return {kReplyMark | static_cast<std::uint64_t>(reply.outcome), reply.staleness, reply.version,
          reply.sequence};
}

std::optional<Reply> parse_reply(std::span<const std::uint64_t, kHeaderWords> words) {
  const std::uint64_t outcome = words[0] & kLowerHalf;
  if ((words[0] & ~kLowerHalf) != kReplyMark || !is_zero(words.subspan<4>()) ||
      outcome > static_cast<std::uint64_t>(PushOutcome::finished)) {
    return {};
  }
  return Reply{.outcome = static_cast<PushOutcome>(outcome),
               .staleness = words[1],
               .version = words[2],
               .sequence = words[3]};
}

}  // namespace kolo::methods

// Errors and names of values.
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "c_api/guard.hpp"
#include "kolo/kolo.h"
#include "kolo/trouble.hpp"
#include "kolo/version.hpp"

namespace kolo::c_api {
namespace {

struct LastError {
  std::string message;
  int rank = -1;
};
thread_local LastError last_error;
thread_local std::string last_text;

kolo_status note(kolo_status status, std::string_view function, const char* message, int rank,
                 std::string_view code = {}) noexcept {
  last_error.rank = rank;
  try {
    last_error.message = rank < 0 || function.empty() ? "" : "rank " + std::to_string(rank) + ": ";
    last_error.message += function;
    if (!function.empty()) last_error.message += ": ";
    last_error.message += message;
    last_error.message = with_code(std::move(last_error.message), code);
  } catch (const std::bad_alloc&) {
    last_error.message.clear();
  }
  return status;
}

int rank_in(const void* group) noexcept {
  if (const void* const object = object_of(Kind::communicator, group))
    return static_cast<const Communicator*>(object)->rank();
  const void* const object = object_of(Kind::batch, group);
  return object == nullptr ? -1 : static_cast<const BatchOf*>(object)->communicator.rank();
}

}  // namespace

kolo_status note_current(const char* function, const void* group) noexcept {
  const auto fail = [](kolo_status status, const Error& error) {
    return note(status, "", error.what(), error.context().peer);
  };
  try {
    throw;
  } catch (const Misuse& error) {
    return note(KOLO_INVALID_ARGUMENT, function, error.what(), rank_in(group), "K307");
  } catch (const InvalidArgumentError& error) {
    return fail(KOLO_INVALID_ARGUMENT, error);
  } catch (const MismatchError& error) {
    return fail(KOLO_MISMATCH, error);
  } catch (const PeerLostError& error) {
    return fail(KOLO_PEER_LOST, error);
  } catch (const TimeoutError& error) {
    return fail(KOLO_TIMED_OUT, error);
  } catch (const AbortedError& error) {
    return fail(KOLO_ABORTED, error);
  } catch (const RendezvousError& error) {
    return fail(KOLO_RENDEZVOUS_FAILED, error);
  } catch (const QuorumError& error) {
    return fail(KOLO_NO_QUORUM, error);
  } catch (const Error& error) {
    return fail(KOLO_SYSTEM_ERROR, error);
  } catch (const std::exception& error) {
    return note(KOLO_SYSTEM_ERROR, function, error.what(), -1);
  } catch (...) {
    return note(KOLO_SYSTEM_ERROR, function, "an exception of unknown type", -1);
  }
}

void refuse_value(const char* name, int value) {
  throw Misuse("there is no " + std::string(name) + " " + std::to_string(value));
}

const char* keep(std::string text) {
  last_text = std::move(text);
  return last_text.c_str();
}

}  // namespace kolo::c_api

using namespace kolo::c_api;

const char* kolo_version(void) {
  return kolo::version();
}
const char* kolo_error_message(void) {
  return last_error.message.c_str();
}
int kolo_error_rank(void) {
  return last_error.rank;
}
const char* kolo_status_name(kolo_status status) {
  static constexpr auto kNames =
      std::to_array<const char*>({"ok", "invalid_argument", "mismatch", "peer_lost", "timed_out", "aborted",
                                  "rendezvous_failed", "system_error", "no_quorum"});
  const auto number = static_cast<std::size_t>(status);
  return number < kNames.size() ? kNames[number] : nullptr;
}
const char* kolo_dtype_name(kolo_dtype dtype) {
  return value_of<const char*>(__func__, nullptr, [&] { return name_of(type_of(dtype)).data(); });
}
size_t kolo_dtype_bytes(kolo_dtype dtype) {
  return value_of<size_t>(__func__, 0, [&] { return size_of(type_of(dtype)); });
}
const char* kolo_op_name(kolo_op op) {
  if (op == KOLO_PREMULTIPLIED_SUM) return "premultiplied_sum";
  if (op == KOLO_CUSTOM) return "custom";
  return value_of<const char*>(__func__, nullptr, [&] {
    return name_of(value_in<kolo::ReduceOp>(op, kolo::kReduceOpCount, "kolo_op")).data();
  });
}
const char* kolo_wire_name(kolo_wire wire) {
  if (wire == KOLO_WIRE_DEFAULT) return "default";
  return value_of<const char*>(__func__, nullptr, [&] { return name_of(wire_of(wire)).data(); });
}

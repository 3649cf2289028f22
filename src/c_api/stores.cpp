// Stores, those of the caller's own functions too.
#include <cstring>
#include <vector>

#include "base/deadline.hpp"
#include "c_api/guard.hpp"
#include "kolo/kolo.h"

namespace kolo::c_api {
namespace {

std::string_view text_given(const char* text, const char* name) {
  return &given(text, name);
}

std::string key_given(const char* key) {
  return std::string(text_given(key, "the key"));
}

/// A store of the caller's functions.
class OwnStore final : public Store {
 public:
  explicit OwnStore(const kolo_store_functions& functions)
      : functions_(functions), name_(text_or_empty(functions.name)) {}
  ~OwnStore() override {
    if (functions_.release != nullptr) functions_.release(functions_.context);
  }

  void set(const std::string& key, const std::string& value) override {
    check("set", key, functions_.set(functions_.context, key.c_str(), value.data(), value.size()));
  }
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    const std::unique_ptr<char[]> value(new char[kMostBytes]);
    std::size_t bytes = 0;
    const int status =
        functions_.get(functions_.context, key.c_str(), std::max<std::int64_t>(timeout.count(), 0),
                       value.get(), kMostBytes, &bytes);
    if (status == KOLO_TIMED_OUT) throw TimeoutError(describe() + ": there is no key " + key, {});
    check("get", key, status);
    if (bytes > kMostBytes) check("get", key, KOLO_SYSTEM_ERROR);
    return {value.get(), bytes};
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    std::int64_t sum = 0;
    check("add", key, functions_.add(functions_.context, key.c_str(), amount, &sum));
    return sum;
  }
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    std::vector<std::string> missing;
    for (const std::string& key : keys) {
      try {
        get(key, deadline.left());
      } catch (const TimeoutError&) {
        missing.push_back(key);
      }
    }
    return missing;
  }
  void remove(const std::string& key) override {
    check("remove", key, functions_.remove(functions_.context, key.c_str()));
  }
  std::string describe() const override { return name_; }

 private:
  static constexpr std::size_t kMostBytes = 1u << 20;

  void check(const char* function, const std::string& key, int status) const {
    if (status == KOLO_OK) return;
    throw RendezvousError(describe() + ": its function `" + function + "` returned " +
                              std::to_string(status) + " for the key " + key,
                          {});
  }

  kolo_store_functions functions_;
  std::string name_;
};

std::shared_ptr<Store> own_store(const kolo_store_functions* given_functions) {
  const kolo_store_functions functions = read(given_functions, "kolo_store_functions");
  given(functions.set, "`set`");
  given(functions.get, "`get`");
  given(functions.add, "`add`");
  given(functions.remove, "`remove`");
  return std::make_shared<OwnStore>(functions);
}

}  // namespace
}  // namespace kolo::c_api

using namespace kolo::c_api;
using kolo::Store;

kolo_status kolo_launch_from_environment(kolo_launch* launch) {
  return guarded(__func__, [&] {
    (void)read(launch, "kolo_launch");
    const kolo::Launch found = kolo::launch_from_environment();
    kolo_launch result = {0, found.rank, found.size, found.local_rank, found.local_size, {}};
    found.launcher.copy(result.launcher, sizeof result.launcher - 1);
    write(launch, result);
  });
}
kolo_status kolo_environment_store(int64_t timeout_ns, const char* key, kolo_store** store) {
  return make_handle(__func__, store, [&] {
    return kolo::store_from_environment(kolo::launch_from_environment(), time_of(timeout_ns),
                                        std::string(text_or_empty(key)));
  });
}
kolo_status kolo_store_outlives_ranks(int* outlives) {
  return guarded(__func__, [&] {
    given(outlives, "the place of the answer") = kolo::store_outlives_ranks(kolo::launch_from_environment());
  });
}
kolo_status kolo_memory_store(kolo_store** store) {
  return make_handle(__func__, store, [] { return kolo::make_memory_store(); });
}
kolo_status kolo_file_store(const char* path, kolo_store** store) {
  return make_handle(__func__, store,
                     [&] { return kolo::make_file_store(std::string(text_given(path, "the path"))); });
}
kolo_status kolo_tcp_store(const char* host, uint16_t port, const char* key, int64_t timeout_ns,
                           kolo_store** store) {
  return make_handle(__func__, store, [&] {
    return kolo::connect_tcp_store(std::string(text_given(host, "the host")), port,
                                   std::string(text_or_empty(key)), time_of(timeout_ns));
  });
}
kolo_status kolo_serve_tcp_store(const char* host, uint16_t port, const char* key,
                                 kolo_store_server** server) {
  return make_handle(__func__, server, [&] {
    return kolo::serve_tcp_store(std::string(text_or_empty(host)), port, std::string(text_or_empty(key)));
  });
}
int kolo_store_server_port(const kolo_store_server* server) {
  return value_of(__func__, -1, [&] { return known(server)->port(); });
}
kolo_status kolo_prefix_store(const char* prefix, kolo_store* store, kolo_store** view) {
  return make_handle(__func__, view, [&] {
    return kolo::make_prefix_store(std::string(text_given(prefix, "the prefix")), known(store));
  });
}
kolo_status kolo_own_store(const kolo_store_functions* functions, kolo_store** store) {
  return make_handle(__func__, store, [&] { return own_store(functions); });
}
kolo_status kolo_store_set(kolo_store* store, const char* key, const void* value, size_t bytes) {
  return guarded(__func__, [&] {
    const auto all = list_of(static_cast<const char*>(value), bytes, "the value");
    known(store)->set(key_given(key), {all.begin(), all.end()});
  });
}
kolo_status kolo_store_get(kolo_store* store, const char* key, int64_t timeout_ns, void* value,
                           size_t capacity, size_t* bytes) {
  return guarded(__func__, [&] {
    std::size_t& length = given(bytes, "the place of the length");
    const std::string found = known(store)->get(key_given(key), time_of(timeout_ns));
    length = found.size();
    if (length > capacity) throw Misuse("the value has " + std::to_string(length) + " bytes");
    if (length > 0)
      std::memcpy(&given(static_cast<char*>(value), "the place of the value"), found.data(), length);
  });
}
kolo_status kolo_store_add(kolo_store* store, const char* key, int64_t amount, int64_t* sum) {
  return guarded(__func__, [&] {
    const std::int64_t result = known(store)->add(key_given(key), amount);
    if (sum != nullptr) *sum = result;
  });
}
kolo_status kolo_store_wait(kolo_store* store, const char* const* keys, size_t count, int64_t timeout_ns,
                            size_t* missing) {
  return guarded(__func__, [&] {
    std::vector<std::string> all;
    for (const char* const key : list_of(keys, count, "the list of keys")) all.push_back(key_given(key));
    given(missing, "the place of the number") = known(store)->wait(all, time_of(timeout_ns)).size();
  });
}
kolo_status kolo_store_remove(kolo_store* store, const char* key) {
  return guarded(__func__, [&] { known(store)->remove(key_given(key)); });
}
const char* kolo_store_describe(const kolo_store* store) {
  return text_of(__func__, [&] { return known(store)->describe(); });
}

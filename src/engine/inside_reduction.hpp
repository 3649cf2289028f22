// InsideReduction: marks the thread that runs a reduction of the caller's own, which must not call kolo.
#pragma once

namespace kolo::engine {

class InsideReduction {
 public:
  InsideReduction() noexcept { is_here_ = true; }
  ~InsideReduction() { is_here_ = false; }
  InsideReduction(const InsideReduction&) = delete;
  InsideReduction& operator=(const InsideReduction&) = delete;

  static bool is_here() noexcept { return is_here_; }

 private:
  // Every call reads it: one load, without a function call that finds the library's thread-local memory.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local bool is_here_ = false;
};

}  // namespace kolo::engine

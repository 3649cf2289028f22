// The Python module kolo_torch._native, and what waits of kolo's do with Python.
#include <sys/syscall.h>
#include <unistd.h>

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "group.hpp"
#include "interrupt.hpp"
#include "kolo/memory.hpp"
#include "memory.hpp"

namespace kolo::pytorch {

void check_signals() {
  if (::syscall(SYS_gettid) != ::getpid() || !Py_IsInitialized()) return;
  const pybind11::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

WithoutLock::WithoutLock()
    : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}

WithoutLock::~WithoutLock() {
  if (state_ != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
}

namespace {

Group& group_of(Base& base) {
  auto* const group = dynamic_cast<Group*>(&base);
  if (group == nullptr) throw std::invalid_argument("this is no backend of kolo's");
  return *group;
}

}  // namespace
}  // namespace kolo::pytorch

PYBIND11_MODULE(_native, module) {
  using namespace kolo::pytorch;
  module.def("create_backend", [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                  std::chrono::milliseconds timeout, bool has_key) {
    const WithoutLock unlocked;
    return c10::intrusive_ptr<Base>(c10::make_intrusive<Group>(store, rank, size, timeout, has_key));
  });
  module.def("is_kolo", [](Base& base) { return dynamic_cast<Group*>(&base) != nullptr; });
  module.def("abort", [](Base& base) { group_of(base).abort(); });
  module.def("shutdown", [](Base& base) { group_of(base).shutdown(); });
  module.def("set_timeout",
             [](Base& base, std::chrono::milliseconds timeout) { group_of(base).setTimeout(timeout); });
  module.def("shares_host", [](Base& base) { return group_of(base).shares_host(); });
  module.def("share_in_this_thread", &share_in_this_thread);
  module.def("share_in_all_threads", &share_in_all_threads);
  module.def("is_shared", [](const at::Tensor& tensor) {
    return kolo::is_shared(tensor.storage().data(), tensor.storage().nbytes());
  });
  module.def("shutdown_all", &Group::shutdown_all);
}

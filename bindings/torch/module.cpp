// The Python module kolo_torch._native, and what waits of kolo's do with Python.
#include <sys/syscall.h>
#include <unistd.h>

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "group.hpp"
#include "interrupt.hpp"
#include "kolo/memory.hpp"
#include "kolo/trouble.hpp"
#include "memory.hpp"
#include "ops.hpp"
#include "quick_call.hpp"

namespace kolo::pytorch {

bool is_main_thread() {
  return ::syscall(SYS_gettid) == ::getpid();
}

void check_signals() {
  if (!is_main_thread() || !Py_IsInitialized()) return;
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
  if (group == nullptr) throw std::invalid_argument(with_code("this is no backend of kolo's"));
  return *group;
}

}  // namespace
}  // namespace kolo::pytorch

PYBIND11_MODULE(_native, module) {
  using namespace kolo::pytorch;
  namespace py = pybind11;
  py::class_<GroupOptions, Base::Options, c10::intrusive_ptr<GroupOptions>>(
      module, "Options",
      R"(How kolo makes the calls of a group: pg_options of init_process_group() and new_group(), or create_backend()'s.

The same on all ranks. An empty text sets nothing:
wire: the format in which all_reduce sends sums and averages of float32 between hosts: native, bfloat16, float16 or int8.
algorithm: that of all_reduce (`kolo list` shows the names), in place of kolo's choice.
timeline: a folder, made where it is missing. When the group ends, each rank writes rank-R-GROUP.json there, for `kolo trace merge`.

Raises ValueError: here for an unknown format, when the group is made for an algorithm that all_reduce does not have.)")
      .def(py::init<const std::string&, const std::string&, const std::string&>(), py::kw_only(),
           py::arg("wire") = "", py::arg("algorithm") = "", py::arg("timeline") = "")
      .def_property_readonly(
          "wire", [](const GroupOptions& o) { return std::string(o.wire ? name_of(*o.wire) : ""); })
      .def_property_readonly("algorithm",
                             [](const GroupOptions& o) { return std::string(std::string_view(o.algorithm)); })
      .def_property_readonly("timeline", [](const GroupOptions& o) { return o.timeline.string(); });
  module.def("create_backend", [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                  std::chrono::milliseconds timeout, bool has_key,
                                  const GroupOptions* options, std::string name, bool is_lazy) {
    const WithoutLock unlocked;
    GroupOptions own = options == nullptr ? GroupOptions() : *options;
    own.timeout = timeout;
    return c10::intrusive_ptr<Base>(
        c10::make_intrusive<Group>(store, rank, size, has_key, own, std::move(name), is_lazy));
  });
  module.def("is_kolo", [](Base& base) { return dynamic_cast<Group*>(&base) != nullptr; });
  module.def("abort", [](Base& base) { group_of(base).abort(); });
  module.def("shutdown", [](Base& base) { group_of(base).shutdown(); });
  module.def("set_timeout",
             [](Base& base, std::chrono::milliseconds timeout) { group_of(base).setTimeout(timeout); });
  module.def("shares_host", [](Base& base) { return group_of(base).shares_host(); });
  module.def("quick_all_reduce", &make_quick_all_reduce);
  module.def("name_group", &name_group);
  module.def("share_in_this_thread", &share_in_this_thread);
  module.def("share_in_all_threads", &share_in_all_threads);
  module.def("is_shared", [](const at::Tensor& tensor) {
    return kolo::is_shared(tensor.storage().data(), tensor.storage().nbytes());
  });
  module.def("shutdown_all", &Group::shutdown_all);
}

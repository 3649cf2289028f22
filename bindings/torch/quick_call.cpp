#include "quick_call.hpp"

#include <stdexcept>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ops.hpp"

namespace kolo::pytorch {
namespace {

/// Whether only autograd and the CPU would see a call with this tensor, and autograd nothing to do.
bool is_ordinary(const at::Tensor& data) {
  using Keys = c10::DispatchKeySet;
  static const Keys kUsual = Keys({c10::DispatchKey::CPU, c10::DispatchKey::AutocastCPU}) |
                             c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  const auto local = c10::impl::tls_local_dispatch_key_set();
  return kUsual.has_all(data.key_set()) && c10::default_included_set.has_all(local.included_) &&
         c10::default_excluded_set.has_all(local.excluded_) && !data.is_inference() &&
         !(data.requires_grad() && at::GradMode::is_enabled()) && !data._fw_grad(0).defined() &&
         at::impl::PythonTorchFunctionTLS::stack_len() == 0 && !at::hasCallbacks();
}

bool read(PyObject* object, c10::string_view& text) {
  Py_ssize_t length = 0;
  const char* const begin = PyUnicode_CheckExact(object) ? PyUnicode_AsUTF8AndSize(object, &length) : nullptr;
  if (begin == nullptr) PyErr_Clear();
  text = c10::string_view(begin, static_cast<std::size_t>(length));
  return begin != nullptr;
}

PyObject* all_reduce(PyObject* general, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  HANDLE_TH_ERRORS
  c10::string_view op, group;
  if (count == 3 && names == nullptr && THPVariable_CheckExact(arguments[0]) && read(arguments[1], op) &&
      read(arguments[2], group)) {
    const at::Tensor& data = THPVariable_Unpack(arguments[0]);
    if (is_ordinary(data)) {
      torch::autograd::impl::bump_version(data);
      try {
        all_reduce_in_place(data, op, group);
        Py_RETURN_NONE;
      } catch (pybind11::error_already_set& raised) {  // a signal handler's
        raised.restore();
      } catch (const std::invalid_argument& wrong) {
        PyErr_SetString(PyExc_ValueError, wrong.what());
      }
      return nullptr;
    }
  }
  return PyObject_Vectorcall(general, arguments, static_cast<std::size_t>(count), names);
  END_HANDLE_TH_ERRORS
}

}  // namespace

pybind11::object make_quick_all_reduce(const pybind11::object& general) {
  static PyMethodDef definition{"all_reduce_",
                                reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(all_reduce)),
                                METH_FASTCALL | METH_KEYWORDS, "kolo::all_reduce_"};
  return pybind11::reinterpret_steal<pybind11::object>(PyCFunction_New(&definition, general.ptr()));
}

}  // namespace kolo::pytorch

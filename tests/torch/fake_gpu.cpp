// Tensors of CUDA for a PyTorch that has none: in memory of the fake driver, on streams of it. A kernel is
// that of the CPU, which the host runs when the thread's current stream has done what it holds. There is no
// backward pass: a PyTorch without CUDA leaves out what its autograd does with streams.
#include <ATen/ATen.h>
#include <ATen/InferSize.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>
#include <torch/library.h>

#include "device/fake_cuda.hpp"

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxPushCurrent_v2(void*);
int cuCtxPopCurrent_v2(void**);
int cuStreamCreate(void**, unsigned);
int cuStreamSynchronize(void*);
int cuEventCreate(void**, unsigned);
int cuEventDestroy_v2(void*);
int cuEventRecord(void*, void*);
int cuEventQuery(void*);
}

namespace {

thread_local c10::DeviceIndex device_now = 0;
thread_local std::array<void*, 2> streams_now{};

/// A context is current in here.
struct InContext {
  explicit InContext(c10::DeviceIndex device) {
    static const int ready = cuInit(0);
    void* context = nullptr;
    TORCH_CHECK(ready == 0 && cuDevicePrimaryCtxRetain(&context, device) == 0);
    cuCtxPushCurrent_v2(context);
  }
  ~InContext() {
    void* context = nullptr;
    cuCtxPopCurrent_v2(&context);
  }
};

void* handle_of(const c10::Stream& stream) {
  return reinterpret_cast<void*>(stream.id());
}

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::CUDA;
  c10::DeviceType type() const override { return static_type; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {static_type, std::exchange(device_now, device.index())};
  }
  c10::Device getDevice() const override { return {static_type, device_now}; }
  void setDevice(c10::Device device) const override { device_now = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { device_now = device.index(); }
  c10::Stream made(c10::Device device, void* handle) const {
    return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(handle));
  }
  static c10::DeviceIndex index(c10::Device device) {
    return device.has_index() ? device.index() : device_now;
  }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return made({static_type, index(device)}, streams_now.at(static_cast<std::size_t>(index(device))));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return made(device, nullptr); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    const InContext context(device.index());
    void* handle = nullptr;
    cuStreamCreate(&handle, 0);
    return made(device, handle);
  }
  void* getStreamNativeHandle(c10::Stream stream) const { return handle_of(stream); }  // virtual from 2.11 on
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const auto place = static_cast<std::size_t>(stream.device_index());
    return made(stream.device(), std::exchange(streams_now.at(place), handle_of(stream)));
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    const InContext context(stream.device_index());
    if (*event == nullptr) cuEventCreate(event, 0);
    cuEventRecord(*event, handle_of(stream));
  }
  void block(void* event, const c10::Stream&) const override {
    while (!queryEvent(event)) {
    }
  }
  bool queryEvent(void* event) const override { return cuEventQuery(event) == 0; }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { cuEventDestroy_v2(event); }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
  void synchronizeStream(const c10::Stream& stream) const override {
    const InContext context(stream.device_index());
    cuStreamSynchronize(handle_of(stream));
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, FakeGuard);

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, c10::optional<at::ScalarType> dtype,
                         c10::optional<at::Layout>, c10::optional<at::Device> device, c10::optional<bool>) {
  const auto options = at::TensorOptions().dtype(dtype.value_or(at::kFloat));
  const c10::Device there(at::kCUDA, FakeGuard::index(device.value_or(at::kCUDA)));
  const auto bytes = at::detail::computeStorageNbytes(sizes, strides, options.dtype().itemsize());
  return at::for_blob(fake_cuda_allocate(there.index(), std::max<std::size_t>(bytes, 1)), sizes)
      .strides(strides)
      .deleter(fake_cuda_free)
      .options(options.device(there))
      .target_device(there)
      .make_tensor();
}

at::Tensor empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout> layout,
                 c10::optional<at::Device> device, c10::optional<bool> pinned,
                 c10::optional<at::MemoryFormat>) {
  return empty_strided(sizes, c10::TensorType::contiguousStridesOf(sizes), dtype, layout, device, pinned);
}

/// The same memory as a tensor of the CPU, which the host may touch as soon as the stream has come here.
at::Tensor inside(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  FakeGuard().getStream(tensor.device()).synchronize();
  at::AutoDispatchBelowAutograd guard;
  return at::from_blob(fake_cuda_inside(tensor.data_ptr()), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

/// To a device: at its place in the stream, and late.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool) {
  const at::Tensor from = inside(source);
  if (self.is_cpu()) return self.copy_(from);
  const auto bytes =
      self.numel() == 0 ? 0 : at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize());
  std::vector<std::byte> all(bytes);
  std::memcpy(all.data(), inside(self).data_ptr(), bytes);
  at::from_blob(all.data(), self.sizes(), self.strides(), self.options().device(at::kCPU)).copy_(from);
  const InContext context(self.device().index());
  fake_cuda_write_on(handle_of(FakeGuard().getStream(self.device())), self.data_ptr(), all.data(), bytes,
                     500);
  return self;
}

at::Tensor view_of(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                   c10::optional<std::int64_t> offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                       self.key_set(), self.dtype());
  at::native::setStrided(view, sizes, strides, offset.value_or(self.storage_offset()));
  return view;
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return view_of(self, sizes, strides, {});
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) {
  const auto whole = at::infer_size_dv(sizes, self.numel());
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), whole);
  TORCH_CHECK(strides.has_value(), "no view");
  return view_of(self, whole, *strides, {});
}

c10::IValue inside(const c10::IValue& value) {
  if (value.isTensor()) return inside(value.toTensor());
  if (value.isDevice()) return c10::Device(at::kCPU);
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& one : value.toTensorVector()) list.push_back(inside(one));
  return list;
}

/// Any other operator.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::vector<c10::IValue> arguments = torch::jit::last(*stack, schema.arguments().size()).vec();
  c10::Device device(at::kCUDA, device_now);
  for (const c10::IValue& value : arguments) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda())
      device = value.toTensor().device();
  }
  torch::jit::drop(*stack, arguments.size());
  for (const c10::IValue& value : arguments) stack->push_back(inside(value));
  op.callBoxed(stack);
  const auto first = stack->size() - schema.returns().size();
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    c10::IValue& result = (*stack)[first + i];
    const auto* const alias = schema.returns()[i].alias_info();
    for (std::size_t j = 0; alias != nullptr && j < arguments.size(); ++j) {
      const auto* const of = schema.arguments()[j].alias_info();
      if (of != nullptr && *of == *alias) result = arguments[j];
    }
    if (result.isTensor() && result.toTensor().defined() && result.toTensor().is_cpu())
      result = result.toTensor().to(device);
  }
}

/// A sparse tensor's parts are tensors of the device.
void run_as_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::SparseCPU), stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("copy_", copy);
  library.impl("as_strided", view_of);
  library.impl("view", view);
  library.impl("_reshape_alias", reshape_alias);
}
TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}
TORCH_LIBRARY_IMPL(aten, SparseCUDA, library) {
  library.impl("copy_", at::native::copy_sparse_wrapper_);
}
TORCH_LIBRARY_IMPL(_, SparseCUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_as_on_cpu>());
}

PYBIND11_MODULE(fake_gpu, module) {
  // A kernel that is late: fills a tensor, behind what the thread's current stream holds.
  module.def("fill_late", [](const at::Tensor& tensor, double value, int delay_us) {
    const at::Tensor values = at::full(tensor.sizes(), value, tensor.options().device(at::kCPU));
    const InContext context(tensor.device().index());
    fake_cuda_write_on(handle_of(FakeGuard().getStream(tensor.device())), tensor.data_ptr(),
                       values.data_ptr(), values.nbytes(), delay_us);
  });
  // The current stream of this thread is one of its own from now on.
  module.def("use_own_stream", [] {
    const FakeGuard guard;
    guard.exchangeStream(guard.getStreamFromGlobalPool(guard.getDevice(), false));
  });
  module.def("delay", &fake_cuda_delay);
}

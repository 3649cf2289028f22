// Driver: the functions of the CUDA driver that kolo uses, found at run time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "device/function.hpp"

namespace kolo::device {

/// What cuda.h declares, under names of this project. tests/unit/device compares the two where cuda.h is
/// there.
namespace cuda {

using DeviceNumber = int;               // CUdevice
using Address = unsigned long long;     // CUdeviceptr
using Context = struct ContextHandle*;  // CUcontext
using Stream = struct StreamHandle*;    // CUstream, cudaStream_t
using Event = struct EventHandle*;      // CUevent
using Uuid = std::array<char, 16>;      // CUuuid
enum PointerAttribute : int {           // CUpointer_attribute
  memory_type = 2,
  is_managed = 8,
  device_ordinal = 9,
  range_start = 11,
  range_size = 12,
};
inline constexpr int kDeviceMemory = 2;                // CU_MEMORYTYPE_DEVICE
inline constexpr int kNotReady = 600;                  // CUDA_ERROR_NOT_READY
inline constexpr unsigned kStreamNonBlocking = 1;      // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventWithoutTime = 2;       // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kRegisterForAllDevices = 1;  // CU_MEMHOSTREGISTER_PORTABLE

}  // namespace cuda

/// The functions have the names of cuda.h without "cu", and its parameters. Thread-safe.
class Driver {
 public:
  /// The process's: loaded and initialized with the first call that can. Code::system says why it is not
  /// there.
  static Result<const Driver*> instance();

  /// "cuEventRecord: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", with Code::system.
  static Status status_of(const char* function, int code);

 private:
  template <typename... Parameters>
  using Function = device::Function<Driver, Parameters...>;

  explicit Driver(Library library) : library_(std::move(library)) {}
  static Result<Driver> load();

  static std::atomic<const Driver*> loaded_;

  Library library_;

 public:
  Function<unsigned> init{library_, "cuInit"};
  Function<int, const char**> get_error_name{library_, "cuGetErrorName"};
  Function<int, const char**> get_error_string{library_, "cuGetErrorString"};
  Function<int*> device_get_count{library_, "cuDeviceGetCount"};
  Function<cuda::DeviceNumber*, int> device_get{library_, "cuDeviceGet"};
  Function<char*, int, cuda::DeviceNumber> device_get_name{library_, "cuDeviceGetName"};
  Function<cuda::Uuid*, cuda::DeviceNumber> device_get_uuid{library_, "cuDeviceGetUuid_v2"};
  Function<cuda::Context*, cuda::DeviceNumber> device_primary_ctx_retain{library_,
                                                                         "cuDevicePrimaryCtxRetain"};
  Function<cuda::DeviceNumber> device_primary_ctx_release{library_, "cuDevicePrimaryCtxRelease_v2"};
  Function<cuda::Context> ctx_push_current{library_, "cuCtxPushCurrent_v2"};
  Function<cuda::Context*> ctx_pop_current{library_, "cuCtxPopCurrent_v2"};
  Function<cuda::Stream*, unsigned> stream_create{library_, "cuStreamCreate"};
  Function<cuda::Stream> stream_destroy{library_, "cuStreamDestroy_v2"};
  Function<cuda::Stream> stream_synchronize{library_, "cuStreamSynchronize"};
  Function<cuda::Stream, cuda::Context*> stream_get_ctx{library_, "cuStreamGetCtx"};
  Function<cuda::Stream, cuda::Event, unsigned> stream_wait_event{library_, "cuStreamWaitEvent"};
  Function<cuda::Event*, unsigned> event_create{library_, "cuEventCreate"};
  Function<cuda::Event> event_destroy{library_, "cuEventDestroy_v2"};
  Function<cuda::Event, cuda::Stream> event_record{library_, "cuEventRecord"};
  Function<cuda::Event> event_query{library_, "cuEventQuery"};
  Function<void*, cuda::Address, std::size_t, cuda::Stream> memcpy_dtoh_async{library_,
                                                                              "cuMemcpyDtoHAsync_v2"};
  Function<cuda::Address, const void*, std::size_t, cuda::Stream> memcpy_htod_async{library_,
                                                                                    "cuMemcpyHtoDAsync_v2"};
  Function<cuda::Address*, std::size_t> mem_alloc{library_, "cuMemAlloc_v2"};
  Function<cuda::Address> mem_free{library_, "cuMemFree_v2"};
  Function<void*, std::size_t, unsigned> mem_host_register{library_, "cuMemHostRegister_v2"};
  Function<void*> mem_host_unregister{library_, "cuMemHostUnregister"};
  Function<unsigned, cuda::PointerAttribute*, void**, cuda::Address> pointer_get_attributes{
      library_, "cuPointerGetAttributes"};
};

}  // namespace kolo::device

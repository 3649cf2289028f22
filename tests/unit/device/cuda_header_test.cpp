// The driver's functions as kolo declares them are those of cuda.h, where it is there.
#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <type_traits>

#include "device/driver.hpp"

namespace kolo::device {
namespace {

/// The same for a call: as long, and both pointers, or both numbers.
template <typename Ours, typename Theirs>
constexpr bool is_passed_alike =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <typename... Ours, typename... Theirs>
constexpr bool is_alike(const Function<Driver, Ours...>*, CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (is_passed_alike<Ours, Theirs> && ...);
  }
}

#define KOLO_EXPECT_ALIKE(ours, theirs) \
  static_assert(                        \
      is_alike(static_cast<decltype(Driver::ours)*>(nullptr), static_cast<decltype(&theirs)>(nullptr)))

KOLO_EXPECT_ALIKE(init, cuInit);
KOLO_EXPECT_ALIKE(get_error_name, cuGetErrorName);
KOLO_EXPECT_ALIKE(get_error_string, cuGetErrorString);
KOLO_EXPECT_ALIKE(device_get_count, cuDeviceGetCount);
KOLO_EXPECT_ALIKE(device_get, cuDeviceGet);
KOLO_EXPECT_ALIKE(device_get_name, cuDeviceGetName);
KOLO_EXPECT_ALIKE(device_primary_ctx_retain, cuDevicePrimaryCtxRetain);
KOLO_EXPECT_ALIKE(device_primary_ctx_release, cuDevicePrimaryCtxRelease_v2);
KOLO_EXPECT_ALIKE(ctx_push_current, cuCtxPushCurrent_v2);
KOLO_EXPECT_ALIKE(ctx_pop_current, cuCtxPopCurrent_v2);
KOLO_EXPECT_ALIKE(stream_create, cuStreamCreate);
KOLO_EXPECT_ALIKE(stream_destroy, cuStreamDestroy_v2);
KOLO_EXPECT_ALIKE(stream_synchronize, cuStreamSynchronize);
KOLO_EXPECT_ALIKE(stream_get_ctx, cuStreamGetCtx);
KOLO_EXPECT_ALIKE(event_create, cuEventCreate);
KOLO_EXPECT_ALIKE(event_destroy, cuEventDestroy_v2);
KOLO_EXPECT_ALIKE(event_record, cuEventRecord);
KOLO_EXPECT_ALIKE(event_query, cuEventQuery);
KOLO_EXPECT_ALIKE(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2);
KOLO_EXPECT_ALIKE(memcpy_htod_async, cuMemcpyHtoDAsync_v2);
KOLO_EXPECT_ALIKE(mem_alloc, cuMemAlloc_v2);
KOLO_EXPECT_ALIKE(mem_free, cuMemFree_v2);
KOLO_EXPECT_ALIKE(mem_host_register, cuMemHostRegister_v2);
KOLO_EXPECT_ALIKE(mem_host_unregister, cuMemHostUnregister);
KOLO_EXPECT_ALIKE(pointer_get_attributes, cuPointerGetAttributes);

static_assert(+cuda::memory_type == +CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(+cuda::is_managed == +CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(+cuda::device_ordinal == +CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(+cuda::range_start == +CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(+cuda::range_size == +CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(cuda::kDeviceMemory == CU_MEMORYTYPE_DEVICE);
static_assert(cuda::kNotReady == CUDA_ERROR_NOT_READY && CUDA_SUCCESS == 0);
static_assert(cuda::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(cuda::kEventWithoutTime == CU_EVENT_DISABLE_TIMING);
static_assert(cuda::kRegisterForAllDevices == CU_MEMHOSTREGISTER_PORTABLE);

}  // namespace
}  // namespace kolo::device
#endif

namespace kolo::device {
namespace {

TEST(CudaHeader, DeclaresWhatTheDriverIsCalledWith) {
#if !__has_include(<cuda.h>)
  GTEST_SKIP() << "cuda.h is not there";
#endif
}

}  // namespace
}  // namespace kolo::device

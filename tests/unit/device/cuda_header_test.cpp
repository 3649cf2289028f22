// The driver's functions as kolo declares them are those of cuda.h, where it is there.
#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#include "device/driver.hpp"
#include "unit/device/alike.hpp"

namespace kolo::device {
namespace {

KOLO_EXPECT_ALIKE(Driver, init, cuInit);
KOLO_EXPECT_ALIKE(Driver, get_error_name, cuGetErrorName);
KOLO_EXPECT_ALIKE(Driver, get_error_string, cuGetErrorString);
KOLO_EXPECT_ALIKE(Driver, device_get_count, cuDeviceGetCount);
KOLO_EXPECT_ALIKE(Driver, device_get, cuDeviceGet);
KOLO_EXPECT_ALIKE(Driver, device_get_name, cuDeviceGetName);
KOLO_EXPECT_ALIKE(Driver, device_get_uuid, cuDeviceGetUuid);
KOLO_EXPECT_ALIKE(Driver, device_primary_ctx_retain, cuDevicePrimaryCtxRetain);
KOLO_EXPECT_ALIKE(Driver, device_primary_ctx_release, cuDevicePrimaryCtxRelease_v2);
KOLO_EXPECT_ALIKE(Driver, ctx_push_current, cuCtxPushCurrent_v2);
KOLO_EXPECT_ALIKE(Driver, ctx_pop_current, cuCtxPopCurrent_v2);
KOLO_EXPECT_ALIKE(Driver, stream_create, cuStreamCreate);
KOLO_EXPECT_ALIKE(Driver, stream_destroy, cuStreamDestroy_v2);
KOLO_EXPECT_ALIKE(Driver, stream_synchronize, cuStreamSynchronize);
KOLO_EXPECT_ALIKE(Driver, stream_get_ctx, cuStreamGetCtx);
KOLO_EXPECT_ALIKE(Driver, stream_wait_event, cuStreamWaitEvent);
KOLO_EXPECT_ALIKE(Driver, event_create, cuEventCreate);
KOLO_EXPECT_ALIKE(Driver, event_destroy, cuEventDestroy_v2);
KOLO_EXPECT_ALIKE(Driver, event_record, cuEventRecord);
KOLO_EXPECT_ALIKE(Driver, event_query, cuEventQuery);
KOLO_EXPECT_ALIKE(Driver, memcpy_dtoh_async, cuMemcpyDtoHAsync_v2);
KOLO_EXPECT_ALIKE(Driver, memcpy_htod_async, cuMemcpyHtoDAsync_v2);
KOLO_EXPECT_ALIKE(Driver, mem_alloc, cuMemAlloc_v2);
KOLO_EXPECT_ALIKE(Driver, mem_free, cuMemFree_v2);
KOLO_EXPECT_ALIKE(Driver, mem_host_register, cuMemHostRegister_v2);
KOLO_EXPECT_ALIKE(Driver, mem_host_unregister, cuMemHostUnregister);
KOLO_EXPECT_ALIKE(Driver, pointer_get_attributes, cuPointerGetAttributes);

static_assert(sizeof(cuda::Uuid) == sizeof(CUuuid));
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

// NCCL's functions as kolo declares them are those of nccl.h, where it is there.
#include <gtest/gtest.h>

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <cstddef>

#include "device/nccl.hpp"
#include "unit/device/alike.hpp"

namespace kolo::device {
namespace {

KOLO_EXPECT_ALIKE(Nccl, get_version, ncclGetVersion);
KOLO_EXPECT_ALIKE(Nccl, get_unique_id, ncclGetUniqueId);
KOLO_EXPECT_ALIKE(Nccl, comm_init_rank_config, ncclCommInitRankConfig);
KOLO_EXPECT_ALIKE(Nccl, comm_finalize, ncclCommFinalize);
KOLO_EXPECT_ALIKE(Nccl, comm_destroy, ncclCommDestroy);
KOLO_EXPECT_ALIKE(Nccl, comm_abort, ncclCommAbort);
KOLO_EXPECT_ALIKE(Nccl, comm_get_async_error, ncclCommGetAsyncError);
KOLO_EXPECT_ALIKE(Nccl, red_op_create_pre_mul_sum, ncclRedOpCreatePreMulSum);
KOLO_EXPECT_ALIKE(Nccl, red_op_destroy, ncclRedOpDestroy);
KOLO_EXPECT_ALIKE(Nccl, group_start, ncclGroupStart);
KOLO_EXPECT_ALIKE(Nccl, group_end, ncclGroupEnd);
KOLO_EXPECT_ALIKE(Nccl, all_reduce, ncclAllReduce);
KOLO_EXPECT_ALIKE(Nccl, reduce, ncclReduce);
KOLO_EXPECT_ALIKE(Nccl, broadcast, ncclBroadcast);
KOLO_EXPECT_ALIKE(Nccl, send, ncclSend);
KOLO_EXPECT_ALIKE(Nccl, recv, ncclRecv);
KOLO_EXPECT_ALIKE(Nccl, reduce_scatter, ncclReduceScatter);
KOLO_EXPECT_ALIKE(Nccl, all_gather, ncclAllGather);

static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(nccl::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(nccl::Config, thread_block_clusters) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(sizeof(nccl::Config) == offsetof(ncclConfig_t, minCTAs));
static_assert(INT_MIN == NCCL_CONFIG_UNDEF_INT);
static_assert(+nccl::int8 == +ncclInt8 && +nccl::uint8 == +ncclUint8);
static_assert(+nccl::int32 == +ncclInt32 && +nccl::uint32 == +ncclUint32);
static_assert(+nccl::int64 == +ncclInt64 && +nccl::uint64 == +ncclUint64);
static_assert(+nccl::float16 == +ncclFloat16 && +nccl::bfloat16 == +ncclBfloat16);
static_assert(+nccl::float32 == +ncclFloat32 && +nccl::float64 == +ncclFloat64);
static_assert(+nccl::sum == +ncclSum && +nccl::product == +ncclProd && +nccl::average == +ncclAvg);
static_assert(+nccl::min == +ncclMin && +nccl::max == +ncclMax);
static_assert(+nccl::host_at_once == +ncclScalarHostImmediate);
static_assert(nccl::kInProgress == +ncclInProgress && +ncclSuccess == 0);

}  // namespace
}  // namespace kolo::device
#endif

namespace kolo::device {
namespace {

TEST(NcclHeader, DeclaresWhatNcclIsCalledWith) {
#if !__has_include(<nccl.h>)
  GTEST_SKIP() << "nccl.h is not there";
#endif
}

}  // namespace
}  // namespace kolo::device

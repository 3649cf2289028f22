// Nccl: the functions of NCCL that kolo uses, found at run time.
#pragma once

#include <atomic>
#include <climits>
#include <cstddef>
#include <string>

#include "device/driver.hpp"

namespace kolo::device {

/// What nccl.h declares, under names of this project. tests/unit/device compares the two where nccl.h is
/// there.
namespace nccl {

using Communicator = struct CommunicatorHandle*;  // ncclComm_t
struct UniqueId {                                 // ncclUniqueId
  char bytes[128];
};
/// ncclConfig_t as NCCL 2.14 has it: later ones take it, and fill in the rest.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int thread_block_clusters = INT_MIN;  // not set
};
enum Type : int {  // ncclDataType_t
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};
enum Operation : int { sum = 0, product = 1, max = 2, min = 3, average = 4 };  // ncclRedOp_t
enum ScalarAt : int { host_at_once = 1 };                                      // ncclScalarResidence_t
inline constexpr int kInProgress = 7;                                          // ncclInProgress

}  // namespace nccl

/// The functions have the names of nccl.h without "nccl", and its parameters. Thread-safe, but for calls on
/// one communicator.
class Nccl {
 public:
  /// The process's: KOLO_NCCL_LIBRARY, else `libnccl.so.2` as it is loaded already (by PyTorch) or as the
  /// system finds it. Loaded with the first call that can. Code::system says why it is not there.
  static Result<const Nccl*> instance();

  /// "ncclAllReduce: unhandled system error: ...", with Code::system. Success while the call is under way.
  static Status status_of(const char* function, int code);

  /// 22809 is 2.28.9.
  int version() const noexcept { return version_; }
  /// "2.28.9".
  static std::string text_of(int version);
  /// The file that it was loaded from.
  const std::string& path() const noexcept { return library_.path(); }

 private:
  template <typename... Parameters>
  using Function = device::Function<Nccl, Parameters...>;

  explicit Nccl(Library library) : library_(std::move(library)) {}
  static Result<Nccl> load();

  static std::atomic<const Nccl*> loaded_;

  Library library_;
  int version_ = 0;
  const char* (*get_error_string_)(int) =
      reinterpret_cast<const char* (*)(int)>(library_.find("ncclGetErrorString"));
  const char* (*get_last_error_)(nccl::Communicator) =
      reinterpret_cast<const char* (*)(nccl::Communicator)>(library_.find("ncclGetLastError"));

 public:
  Function<int*> get_version{library_, "ncclGetVersion"};
  Function<nccl::UniqueId*> get_unique_id{library_, "ncclGetUniqueId"};
  Function<nccl::Communicator*, int, nccl::UniqueId, int, nccl::Config*> comm_init_rank_config{
      library_, "ncclCommInitRankConfig"};
  Function<nccl::Communicator> comm_finalize{library_, "ncclCommFinalize"};
  Function<nccl::Communicator> comm_destroy{library_, "ncclCommDestroy"};
  Function<nccl::Communicator> comm_abort{library_, "ncclCommAbort"};
  Function<nccl::Communicator, int*> comm_get_async_error{library_, "ncclCommGetAsyncError"};
  Function<nccl::Operation*, void*, nccl::Type, nccl::ScalarAt, nccl::Communicator> red_op_create_pre_mul_sum{
      library_, "ncclRedOpCreatePreMulSum"};
  Function<nccl::Operation, nccl::Communicator> red_op_destroy{library_, "ncclRedOpDestroy"};
  Function<> group_start{library_, "ncclGroupStart"};
  Function<> group_end{library_, "ncclGroupEnd"};
  Function<const void*, void*, std::size_t, nccl::Type, nccl::Operation, nccl::Communicator, cuda::Stream>
      all_reduce{library_, "ncclAllReduce"};
  Function<const void*, void*, std::size_t, nccl::Type, nccl::Operation, int, nccl::Communicator,
           cuda::Stream>
      reduce{library_, "ncclReduce"};
  Function<const void*, void*, std::size_t, nccl::Type, int, nccl::Communicator, cuda::Stream> broadcast{
      library_, "ncclBroadcast"};
  Function<const void*, std::size_t, nccl::Type, int, nccl::Communicator, cuda::Stream> send{library_,
                                                                                             "ncclSend"};
  Function<void*, std::size_t, nccl::Type, int, nccl::Communicator, cuda::Stream> recv{library_, "ncclRecv"};
  Function<const void*, void*, std::size_t, nccl::Type, nccl::Operation, nccl::Communicator, cuda::Stream>
      reduce_scatter{library_, "ncclReduceScatter"};
  Function<const void*, void*, std::size_t, nccl::Type, nccl::Communicator, cuda::Stream> all_gather{
      library_, "ncclAllGather"};
};

}  // namespace kolo::device

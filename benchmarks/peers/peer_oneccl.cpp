// The same benchmark with oneCCL, for processors alone; its ranks meet and move control data over the MPI
// below it.
#include <fmt/format.h>

#include <oneapi/ccl.hpp>

#include "mpi_contestant.hpp"

// The library calls a tracer through pointers that the tracer defines, in a library that no package has.
#define NO_TRACER(name) void* __itt_##name##_ptr__3_0 = nullptr;
extern "C" {
NO_TRACER(domain_create)
NO_TRACER(event_create)
NO_TRACER(event_end)
NO_TRACER(event_start)
NO_TRACER(metadata_add)
NO_TRACER(string_handle_create)
NO_TRACER(task_begin)
NO_TRACER(task_end)
NO_TRACER(thread_set_name)
}

namespace kolo::bench {
namespace {

std::optional<ccl::datatype> ccl_type(DType dtype) {
  static const std::map<DType, ccl::datatype> types = {
      {DType::float32, ccl::datatype::float32}, {DType::float64, ccl::datatype::float64},
      {DType::float16, ccl::datatype::float16}, {DType::bfloat16, ccl::datatype::bfloat16},
      {DType::int8, ccl::datatype::int8},       {DType::int32, ccl::datatype::int32},
      {DType::int64, ccl::datatype::int64},     {DType::uint8, ccl::datatype::uint8},
      {DType::uint32, ccl::datatype::uint32},   {DType::uint64, ccl::datatype::uint64},
  };
  const auto found = types.find(dtype);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ccl::reduction> ccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ccl::reduction::sum;
    case ReduceOp::product:
      return ccl::reduction::prod;
    case ReduceOp::min:
      return ccl::reduction::min;
    case ReduceOp::max:
      return ccl::reduction::max;
    default:
      return std::nullopt;
  }
}

class CclContestant : public MpiContestant {
 public:
  std::vector<std::string> algorithms(const Case& what) const override {
    const bool can = what.kind == Kind::all_reduce && ccl_type(what.dtype) && ccl_op(what.op);
    return can ? std::vector<std::string>{"default"} : std::vector<std::string>{};
  }

  void prepare(const Case& what, const std::string&, std::span<const Piece> pieces) override {
    what_ = what;
    pieces_.assign(pieces.begin(), pieces.end());
    events_.resize(pieces.size());
  }

  void call(std::size_t begin, std::size_t end) override {
    for (std::size_t i = begin; i < end; ++i) {
      const Piece& piece = pieces_[i];
      events_[i] = ccl::allreduce(what_.in_place ? piece.out : piece.in, piece.out, what_.count,
                                  *ccl_type(what_.dtype), *ccl_op(what_.op), communicator_);
    }
    for (std::size_t i = begin; i < end; ++i) events_[i].wait();
  }

 private:
  ccl::communicator meet() {
    ccl::init();
    ccl::kvs::address_type address;
    ccl::shared_ptr_class<ccl::kvs> store;
    if (rank() == 0) {
      store = ccl::create_main_kvs();
      address = store->get_address();
    }
    share(address.data(), address.size());
    if (rank() != 0) store = ccl::create_kvs(address);
    return ccl::create_communicator(size(), rank(), store);
  }

  ccl::communicator communicator_ = meet();
  Case what_;
  std::vector<Piece> pieces_;
  std::vector<ccl::event> events_;
};

std::string library_name() {
  const ccl::library_version version = ccl::get_library_version();
  return fmt::format("oneCCL {}.{}.{}", version.major, version.minor, version.update);
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  return kolo::bench::mpi_main<kolo::bench::CclContestant>(argc, argv, kolo::bench::library_name);
}

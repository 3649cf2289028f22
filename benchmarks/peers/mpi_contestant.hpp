// MpiContestant: the collectives of an MPI, and what the measuring loop needs beside them.
#pragma once

// Only the C interface: the C++ one is deprecated, and its headers cause warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "peer.hpp"

namespace kolo::bench {

/// nullopt for types that MPI does not have.
inline std::optional<MPI_Datatype> mpi_type(DType dtype) {
  static const std::map<DType, MPI_Datatype> types = {
      {DType::float32, MPI_FLOAT},   {DType::float64, MPI_DOUBLE},  {DType::int8, MPI_INT8_T},
      {DType::int16, MPI_INT16_T},   {DType::int32, MPI_INT32_T},   {DType::int64, MPI_INT64_T},
      {DType::uint8, MPI_UINT8_T},   {DType::uint16, MPI_UINT16_T}, {DType::uint32, MPI_UINT32_T},
      {DType::uint64, MPI_UINT64_T},
  };
  const auto found = types.find(dtype);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

inline std::optional<MPI_Op> mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    default:
      return std::nullopt;
  }
}

class MpiContestant : public Contestant {
 public:
  MpiContestant() : Contestant(of_world(MPI_Comm_rank), of_world(MPI_Comm_size)) {}

  std::vector<std::string> algorithms(const Case& what) const override {
    const bool reduces = is_reducing(what.kind);
    if (reduces && (!mpi_type(what.dtype) || !mpi_op(what.op))) return {};
    // In place, MPI writes the result to the begin of the data, not to the rank's own part.
    if (what.kind == Kind::reduce_scatter && what.in_place) return {};
    // MPI 3 counts in int.
    if (what.bytes() > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) return {};
    return {"default"};
  }

  std::byte* memory(std::size_t bytes) override { return memory_.at_least(bytes); }

  void prepare(const Case& what, const std::string&, std::span<const Piece> pieces) override {
    kind_ = what.kind;
    // Collectives that only move data can move bytes.
    const auto type = mpi_type(what.dtype);
    count_ = static_cast<int>(type ? what.count : what.count * size_of(what.dtype));
    type_ = type.value_or(MPI_BYTE);
    op_ = is_reducing(what.kind) ? mpi_op(what.op).value() : MPI_SUM;
    pieces_.assign(pieces.begin(), pieces.end());
    requests_.assign(pieces.size(), MPI_REQUEST_NULL);
    in_place_ = what.in_place;
    peer_ = (rank() ^ 1) < size() ? rank() ^ 1 : MPI_PROC_NULL;
  }

  void call(std::size_t begin, std::size_t end) override {
    if (end - begin == 1) return call(pieces_[begin].in, pieces_[begin].out);
    for (std::size_t i = begin; i < end; ++i) start(pieces_[i].in, pieces_[i].out, &requests_[i]);
    MPI_Waitall(static_cast<int>(end - begin), &requests_[begin], MPI_STATUSES_IGNORE);
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void share(void* data, std::size_t bytes) override {
    MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  void collect(const double* mine, std::size_t count, double* all) override {
    const int n = static_cast<int>(count);
    MPI_Gather(mine, n, MPI_DOUBLE, all, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  }

 private:
  void call(void* in, void* out) {
    const MPI_Comm world = MPI_COMM_WORLD;
    void* const here = MPI_IN_PLACE;
    switch (kind_) {
      case Kind::all_reduce:
        MPI_Allreduce(in_place_ ? here : in, out, count_, type_, op_, world);
        break;
      case Kind::reduce_scatter:
        MPI_Reduce_scatter_block(in, out, count_, type_, op_, world);
        break;
      case Kind::all_gather:
        MPI_Allgather(in_place_ ? here : in, count_, type_, out, count_, type_, world);
        break;
      case Kind::broadcast:
        MPI_Bcast(out, count_, type_, 0, world);
        break;
      case Kind::reduce:
        MPI_Reduce(in_place_ && rank() == 0 ? here : in, out, count_, type_, op_, 0, world);
        break;
      case Kind::scatter:
        MPI_Scatter(in, count_, type_, in_place_ && rank() == 0 ? here : out, count_, type_, 0, world);
        break;
      case Kind::gather:
        MPI_Gather(in_place_ && rank() == 0 ? here : in, count_, type_, out, count_, type_, 0, world);
        break;
      case Kind::all_to_all:
        MPI_Alltoall(in_place_ ? here : in, count_, type_, out, count_, type_, world);
        break;
      case Kind::scan:
        MPI_Scan(in_place_ ? here : in, out, count_, type_, op_, world);
        break;
      case Kind::barrier:
        MPI_Barrier(world);
        break;
      case Kind::send_recv:
        if (rank() % 2 == 0) MPI_Send(in, count_, type_, peer_, 0, world);
        MPI_Recv(out, count_, type_, peer_, 0, world, MPI_STATUS_IGNORE);
        if (rank() % 2 == 1) MPI_Send(in, count_, type_, peer_, 0, world);
        break;
      default:
        break;
    }
  }

  void start(void* in, void* out, MPI_Request* request) {
    const MPI_Comm world = MPI_COMM_WORLD;
    void* const here = MPI_IN_PLACE;
    const bool here_at_root = in_place_ && rank() == 0;
    switch (kind_) {
      case Kind::all_reduce:
        MPI_Iallreduce(in_place_ ? here : in, out, count_, type_, op_, world, request);
        break;
      case Kind::reduce_scatter:
        MPI_Ireduce_scatter_block(in, out, count_, type_, op_, world, request);
        break;
      case Kind::all_gather:
        MPI_Iallgather(in_place_ ? here : in, count_, type_, out, count_, type_, world, request);
        break;
      case Kind::broadcast:
        MPI_Ibcast(out, count_, type_, 0, world, request);
        break;
      case Kind::reduce:
        MPI_Ireduce(here_at_root ? here : in, out, count_, type_, op_, 0, world, request);
        break;
      case Kind::scatter:
        MPI_Iscatter(in, count_, type_, here_at_root ? here : out, count_, type_, 0, world, request);
        break;
      case Kind::gather:
        MPI_Igather(here_at_root ? here : in, count_, type_, out, count_, type_, 0, world, request);
        break;
      case Kind::all_to_all:
        MPI_Ialltoall(in_place_ ? here : in, count_, type_, out, count_, type_, world, request);
        break;
      case Kind::scan:
        MPI_Iscan(in_place_ ? here : in, out, count_, type_, op_, world, request);
        break;
      case Kind::barrier:
        MPI_Ibarrier(world, request);
        break;
      default:
        break;
    }
  }

  static int of_world(int (*function)(MPI_Comm, int*)) {
    int number = 0;
    function(MPI_COMM_WORLD, &number);
    return number;
  }

  PlainMemory memory_;
  Kind kind_ = Kind::barrier;
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
  MPI_Op op_ = MPI_SUM;
  std::vector<Piece> pieces_;
  std::vector<MPI_Request> requests_;
  bool in_place_ = false;
  int peer_ = MPI_PROC_NULL;
};

/// main() of a program of an MPI: its ranks measure with a Contestant of this type.
template <typename Measured>
int mpi_main(int argc, char** argv, std::string (*library)()) {
  MPI_Init(&argc, &argv);
  if (argc != 2) {
    std::fprintf(stderr, "kolo bench --against starts this program\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int status = 0;
  {
    Measured contestant;
    status = serve(contestant, argv[1], library());
  }
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}

}  // namespace kolo::bench

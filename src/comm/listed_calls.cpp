// The collectives of a Communicator that take lists of buffers. Each blocking form starts the same call and
// waits.
#include <utility>

#include "comm/state.hpp"

namespace kolo {
namespace {

/// What has no list is in `in` or `out`. `lists` outlives the call's start.
comm::Call make_listed(schedule::Collective collective, ConstBuffer in, Buffer out, comm::Lists&& lists,
                       const CallOptions& options, int root = 0, Reduction reduction = ReduceOp::sum) {
  return {.collective = collective,
          .in = in,
          .out = out,
          .root = root,
          .reduction = std::move(reduction),
          .options = &options,
          .lists = &lists};
}

}  // namespace

using schedule::Collective;

Work Communicator::reduce_scatter_async(const BorrowedConstBufferList& in, Buffer out, Reduction reduction,
                                        const CallOptions& options) {
  return state().start(
      make_listed(Collective::reduce_scatter, {}, out, {in.buffers(), {}}, options, 0, std::move(reduction)),
      false);
}
void Communicator::reduce_scatter(const ConstBufferList& in, Buffer out, Reduction reduction,
                                  const CallOptions& options) {
  state().run(
      make_listed(Collective::reduce_scatter, {}, out, {in.buffers(), {}}, options, 0, std::move(reduction)));
}

Work Communicator::all_gather_async(BorrowedConstBuffer in, const BufferList& out,
                                    const CallOptions& options) {
  return state().start(make_listed(Collective::all_gather, in, {}, {{}, out.buffers()}, options), false);
}
void Communicator::all_gather(ConstBuffer in, const BufferList& out, const CallOptions& options) {
  state().run(make_listed(Collective::all_gather, in, {}, {{}, out.buffers()}, options));
}

Work Communicator::scatter_async(const BorrowedConstBufferList& in, Buffer out, int root,
                                 const Counts& counts, const CallOptions& options) {
  return state().start(make_listed(Collective::scatter, {}, out, {in.buffers(), {}}, options, root), false,
                       counts);
}
void Communicator::scatter(const ConstBufferList& in, Buffer out, int root, const Counts& counts,
                           const CallOptions& options) {
  state().run(make_listed(Collective::scatter, {}, out, {in.buffers(), {}}, options, root), counts);
}

Work Communicator::gather_async(BorrowedConstBuffer in, const BufferList& out, int root, const Counts& counts,
                                const CallOptions& options) {
  return state().start(make_listed(Collective::gather, in, {}, {{}, out.buffers()}, options, root), false,
                       counts);
}
void Communicator::gather(ConstBuffer in, const BufferList& out, int root, const Counts& counts,
                          const CallOptions& options) {
  state().run(make_listed(Collective::gather, in, {}, {{}, out.buffers()}, options, root), counts);
}

Work Communicator::all_to_all_async(const BorrowedConstBufferList& in, const BufferList& out,
                                    const CallOptions& options) {
  return state().start(make_listed(Collective::all_to_all, {}, {}, {in.buffers(), out.buffers()}, options),
                       false);
}
void Communicator::all_to_all(const ConstBufferList& in, const BufferList& out, const CallOptions& options) {
  state().run(make_listed(Collective::all_to_all, {}, {}, {in.buffers(), out.buffers()}, options));
}

}  // namespace kolo

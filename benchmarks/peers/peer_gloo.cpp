// The same benchmark with Gloo over its TCP transport, on loopback or on a given interface.
#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <functional>
#include <limits>

#include "peer.hpp"

namespace kolo::bench {
namespace {

using Reducer = void (*)(void*, const void*, const void*, std::size_t);

template <typename T>
Reducer reducer_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return &gloo::sum<T>;
    case ReduceOp::product:
      return &gloo::product<T>;
    case ReduceOp::min:
      return &gloo::min<T>;
    case ReduceOp::max:
      return &gloo::max<T>;
    default:
      return nullptr;
  }
}

Reducer reducer_of(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::float32:
      return reducer_of<float>(op);
    case DType::float64:
      return reducer_of<double>(op);
    case DType::float16:
      return reducer_of<gloo::float16>(op);
    case DType::int8:
      return reducer_of<std::int8_t>(op);
    case DType::int16:
      return reducer_of<std::int16_t>(op);
    case DType::int32:
      return reducer_of<std::int32_t>(op);
    case DType::int64:
      return reducer_of<std::int64_t>(op);
    case DType::uint8:
      return reducer_of<std::uint8_t>(op);
    case DType::uint16:
      return reducer_of<std::uint16_t>(op);
    case DType::uint32:
      return reducer_of<std::uint32_t>(op);
    case DType::uint64:
      return reducer_of<std::uint64_t>(op);
    default:
      return nullptr;
  }
}

class GlooContestant : public Contestant {
 public:
  explicit GlooContestant(std::shared_ptr<gloo::Context> context)
      : Contestant(context->rank, context->size), context_(std::move(context)) {
    context_->setTimeout(std::chrono::minutes(5));
  }

  std::vector<std::string> algorithms(const Case& what) const override {
    if (is_reducing(what.kind) && reducer_of(what.dtype, what.op) == nullptr) return {};
    if (what.count == 0 && what.kind != Kind::barrier) return {};
    const bool float_sum = what.dtype == DType::float32 && what.op == ReduceOp::sum &&
                           what.count <= static_cast<std::uint64_t>(std::numeric_limits<int>::max());
    switch (what.kind) {
      case Kind::all_reduce:
        // Two of the present interface, and the two older classes that Gloo's own benchmark favours.
        if (float_sum && what.in_place && size() > 1) {
          return {"ring", "bcube", "ring_chunked", "halving_doubling"};
        }
        return {"ring", "bcube"};
      case Kind::reduce_scatter:  // only in an older class, in place
      case Kind::scan:            // none
        return {};
      case Kind::all_to_all:  // never in place
        if (what.in_place) return {};
        return {"default"};
      default:
        return {"default"};
    }
  }

  std::byte* memory(std::size_t bytes) override {
    prepared_.clear();
    older_.clear();
    return memory_.at_least(bytes);
  }

  void prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) override {
    what_ = what;
    bytes_ = what.count * size_of(what.dtype);
    prepared_.clear();
    older_.clear();
    for (const Piece& piece : pieces) {
      in_ = static_cast<char*>(piece.in);
      out_ = static_cast<char*>(piece.out);
      prepare_piece(algorithm);
    }
  }

  // Gloo has no asynchronous calls, so several pieces run one after another.
  void call(std::size_t begin, std::size_t end) override {
    for (std::size_t i = begin; i < end; ++i) prepared_[i]();
  }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void share(void* data, std::size_t bytes) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<char*>(data), bytes);
    options.setRoot(0);
    options.setTag(kControlTag);
    gloo::broadcast(options);
  }
  void collect(const double* mine, std::size_t count, double* all) override {
    gloo::GatherOptions options(context_);
    options.setInput(const_cast<double*>(mine), count);
    if (rank() == 0) options.setOutput(all, count * static_cast<std::size_t>(size()));
    options.setRoot(0);
    options.setTag(kControlTag);
    gloo::gather(options);
  }

 private:
  static constexpr std::uint32_t kControlTag = 1;

  int count() const { return static_cast<int>(what_.count); }
  float* floats() const { return reinterpret_cast<float*>(out_); }

  void prepare_piece(const std::string& algorithm) {
    if (what_.kind == Kind::all_reduce && algorithm == "ring_chunked") {
      return prepare_older<gloo::AllreduceRingChunked<float>>();
    }
    if (what_.kind == Kind::all_reduce && algorithm == "halving_doubling") {
      return prepare_older<gloo::AllreduceHalvingDoubling<float>>();
    }
    const auto choice = algorithm == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                             : gloo::AllreduceOptions::Algorithm::RING;
    switch (size_of(what_.dtype)) {  // Gloo's options need a type of this size
      case 1:
        return prepare_typed<std::uint8_t>(choice);
      case 2:
        return prepare_typed<std::uint16_t>(choice);
      case 4:
        return prepare_typed<std::uint32_t>(choice);
      default:
        return prepare_typed<std::uint64_t>(choice);
    }
  }

  template <typename Older>
  void prepare_older() {
    older_.push_back(std::make_unique<Older>(context_, std::vector<float*>{floats()}, count()));
    prepared_.push_back([older = older_.back().get()] { older->run(); });
  }

  template <typename T>
  void prepare_typed(gloo::AllreduceOptions::Algorithm choice) {
    const std::size_t n = what_.count, all = n * static_cast<std::size_t>(size());
    T* const in = reinterpret_cast<T*>(in_);
    T* const out = reinterpret_cast<T*>(out_);
    const bool root = rank() == 0;
    const Reducer reducer = is_reducing(what_.kind) ? reducer_of(what_.dtype, what_.op) : nullptr;
    switch (what_.kind) {
      case Kind::all_reduce:
        prepared_.push_back([=, this] {
          gloo::AllreduceOptions options(context_);
          if (!what_.in_place) options.setInput(in, n);
          options.setOutput(out, n);
          options.setReduceFunction(reducer);
          options.setAlgorithm(choice);
          gloo::allreduce(options);
        });
        break;
      case Kind::all_gather:
        prepared_.push_back([=, this] {
          gloo::AllgatherOptions options(context_);
          if (!what_.in_place) options.setInput(in, n);
          options.setOutput(out, all);
          gloo::allgather(options);
        });
        break;
      case Kind::broadcast:
        prepared_.push_back([=, this] {
          gloo::BroadcastOptions options(context_);
          options.setOutput(out, n);
          options.setRoot(0);
          gloo::broadcast(options);
        });
        break;
      case Kind::reduce:
        // Gloo requires an output on every rank; ranks other than the root pass their input.
        prepared_.push_back([=, this] {
          gloo::ReduceOptions options(context_);
          if (root && !what_.in_place) options.setInput(in, n);
          options.setOutput(root ? out : in, n);
          options.setReduceFunction(reducer);
          options.setRoot(0);
          gloo::reduce(options);
        });
        break;
      case Kind::scatter:
        prepared_.push_back([=, this] {
          gloo::ScatterOptions options(context_);
          std::vector<T*> parts;
          for (std::size_t r = 0; root && r < static_cast<std::size_t>(size()); ++r)
            parts.push_back(in + r * n);
          if (root) options.setInputs(parts, n);
          options.setOutput(out, n);
          options.setRoot(0);
          gloo::scatter(options);
        });
        break;
      case Kind::gather:
        prepared_.push_back([=, this] {
          gloo::GatherOptions options(context_);
          options.setInput(in, n);
          if (root) options.setOutput(out, all);
          options.setRoot(0);
          gloo::gather(options);
        });
        break;
      case Kind::all_to_all:
        prepared_.push_back([=, this] {
          gloo::AlltoallOptions options(context_);
          options.setInput(in, all);
          options.setOutput(out, all);
          gloo::alltoall(options);
        });
        break;
      case Kind::barrier:
        prepared_.push_back([this] { barrier(); });
        break;
      case Kind::send_recv: {
        const int peer = rank() ^ 1;
        if (peer >= size()) {
          prepared_.push_back([] {});
          break;
        }
        std::shared_ptr<gloo::transport::UnboundBuffer> give = context_->createUnboundBuffer(in, bytes_);
        std::shared_ptr<gloo::transport::UnboundBuffer> take = context_->createUnboundBuffer(out, bytes_);
        const bool first = rank() % 2 == 0;
        prepared_.push_back([=, this] {
          const std::uint64_t slot = context_->nextSlot();
          take->recv(peer, slot);
          if (first) give->send(peer, slot);
          take->waitRecv();
          if (!first) give->send(peer, slot);
          give->waitSend();
        });
        break;
      }
      default:
        break;
    }
  }

  std::shared_ptr<gloo::Context> context_;
  PlainMemory memory_;
  Case what_;
  char* in_ = nullptr;
  char* out_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::function<void()>> prepared_;  // one for each piece
  std::vector<std::unique_ptr<gloo::Algorithm>> older_;
};

std::shared_ptr<gloo::Context> connect(int rank, int size, const std::string& folder,
                                       const std::string& interface) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = interface;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  return context;
}

/// `arguments`: the socket of kolo bench, rank, size, the store's folder, and the interface ("lo" if absent).
int run(std::span<char* const> arguments) {
  GlooContestant contestant(connect(std::atoi(arguments[1]), std::atoi(arguments[2]), arguments[3],
                                    arguments.size() > 4 ? arguments[4] : "lo"));
  return serve(contestant, arguments[0],
               fmt::format("Gloo {}.{}.{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH));
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  return kolo::bench::peer_main(argc, argv, 4, "gloo", kolo::bench::run);
}

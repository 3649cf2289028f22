#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/core/Storage.h>

#include <algorithm>
#include <cstdlib>  // defines __GLIBC__
#include <cstring>
#include <functional>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "kolo/arena.hpp"
#include "kolo/error.hpp"
#include "kolo/memory.hpp"
#include "kolo/train/libtorch.hpp"
#include "kolo/train/tensor.hpp"
#include "libtorch/device.hpp"

namespace kolo {
namespace {

using Memory = std::shared_ptr<std::byte[]>;
using Sizes = std::vector<std::int64_t>;

at::DataPtr data_of(const Memory& memory, at::Device device = at::kCPU) {
  return {memory.get(), new Memory(memory), [](void* kept) { delete static_cast<Memory*>(kept); }, device};
}

Memory allocate(std::uint64_t bytes, at::Device device) {
  if (device.is_cpu()) return SharedArena::instance().allocate(bytes);
  const auto own = std::make_shared<const at::Tensor>(
      at::empty({std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes))},
                at::TensorOptions(device).dtype(at::kByte)));
  return {own, static_cast<std::byte*>(own->data_ptr())};
}

std::vector<std::size_t> all_of(std::span<const NamedTensor> tensors) {
  std::vector<std::size_t> indices(tensors.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

/// Without gaps: the tensor's own, or those of a contiguous one.
Sizes strides_of(const at::Tensor& tensor) {
  return (tensor.is_non_overlapping_and_dense() ? tensor : at::empty(tensor.sizes(), at::kByte))
      .strides()
      .vec();
}

/// Whether no value has all bits of its exponent set.
template <typename Bits>
bool have_exponents(const Buffer& values, Bits exponent) {
  const auto* const bytes = static_cast<const std::byte*>(values.data);
  const std::uint64_t count = values.bytes() / sizeof(Bits);  // a complex number has two
  bool unbounded = false;
  for (std::uint64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
    unbounded |= (bits & exponent) == exponent;
  }
  return !unbounded;
}

bool is_finite(const FlatTensors& flat) {
  const Buffer values = flat.buffer();
  switch (values.device.kind == DeviceKind::host ? values.dtype : DType::uint8) {
    case DType::float32:
    case DType::complex64:
      return have_exponents<std::uint32_t>(values, 0x7F800000u);
    case DType::float64:
    case DType::complex128:
      return have_exponents<std::uint64_t>(values, 0x7FF0000000000000u);
    case DType::float16:
      return have_exponents<std::uint16_t>(values, 0x7C00u);
    case DType::bfloat16:
      return have_exponents<std::uint16_t>(values, 0x7F80u);
    default:
      const at::Tensor all = flat.flat();
      return (size_of(values.dtype) == 1 ? all.to(at::kFloat) : all).isfinite().all().item<bool>();
  }
}

void require_dense_on_cpu(const at::Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgumentError("an undefined tensor has no memory to share", {});
  if (!tensor.device().is_cpu()) {
    throw InvalidArgumentError(
        "a tensor on " + tensor.device().str() + " cannot lie in the host's shared memory", {});
  }
  if (tensor.layout() != at::kStrided) throw InvalidArgumentError("a sparse tensor cannot be shared", {});
}

/// Gives the tensor's storage other memory, whose contents are not set, and returns what it had.
at::DataPtr replace_memory(const at::Tensor& tensor) {
  return tensor.storage().set_data_ptr(data_of(SharedArena::instance().allocate(tensor.storage().nbytes())));
}

at::Tensor without_values(at::Tensor fresh) {
  require_dense_on_cpu(fresh);
  replace_memory(fresh);
  return fresh;
}

}  // namespace

FlatTensors::FlatTensors(std::span<const NamedTensor> like, std::optional<at::ScalarType> type)
    : FlatTensors(like, all_of(like), type) {}

FlatTensors::FlatTensors(std::span<const NamedTensor> like, std::span<const std::size_t> members,
                         std::optional<at::ScalarType> own_type) {
  if (members.empty()) throw InvalidArgumentError("FlatTensors of no tensors", {});
  const at::ScalarType type = like[members.front()].tensor.scalar_type();
  const at::Device device = like[members.front()].tensor.device();
  options_ = at::TensorOptions(device).dtype(own_type.value_or(type));
  dtype_ = dtype_of_tensor(own_type.value_or(type));
  for (const std::size_t index : members) {
    const auto& [name, tensor, note] = like[index];
    if (!train::is_served(tensor.device()) || tensor.device() != device || tensor.layout() != at::kStrided ||
        tensor.scalar_type() != type) {
      throw InvalidArgumentError('\'' + name + "' on " + tensor.device().str() +
                                     " is no strided tensor of type " + c10::toString(type) + " on " +
                                     (train::is_served(device) ? device : at::Device(at::kCPU)).str(),
                                 {});
    }
    GradientPart part = part_of(like[index]);
    part.offset = count_;
    count_ += part.count;
    parts_.push_back(std::move(part));
    shapes_.push_back({index, tensor.sizes().vec(), strides_of(tensor)});
  }
  provide();
  flat().zero_();
}

GradientPart FlatTensors::part_of(const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  Sizes order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  // Ranks agree on strides, but for those of a contiguous tensor's dimensions of one element.
  if (!tensor.is_contiguous() && tensor.is_non_overlapping_and_dense())
    std::ranges::stable_sort(order, std::greater<>(), [&](std::int64_t d) { return tensor.stride(d); });
  GradientPart part{named.name, {}, 0, static_cast<std::uint64_t>(tensor.numel())};
  for (const std::int64_t dimension : order) part.shape.push_back(tensor.size(dimension));
  return part;
}

at::Tensor FlatTensors::view(std::size_t part) const {
  return at::from_blob(
      memory_.get() + parts_[part].offset * size_of(dtype_), shapes_[part].sizes, shapes_[part].strides,
      [memory = memory_](void*) {}, options_, options_.device());
}

at::Tensor FlatTensors::flat() const {
  return at::from_blob(
      memory_.get(), {static_cast<std::int64_t>(count_)}, {1}, [memory = memory_](void*) {}, options_,
      options_.device());
}

Buffer FlatTensors::buffer() const noexcept {
  return {memory_.get(), count_, dtype_, train::device_of(options_.device())};
}

void FlatTensors::on_host(const std::function<void(Buffer)>& use) const {
  if (options_.device().is_cpu()) return use(buffer());
  const at::Tensor all = flat();
  if (!pinned_.defined()) pinned_ = at::empty_like(all, options_.device(at::kCPU).pinned_memory(true));
  pinned_.copy_(all);
  use({pinned_.data_ptr(), count_, dtype_});
  all.copy_(pinned_);
}

void FlatTensors::adopt(std::size_t part, const at::Tensor& tensor) {
  if (holds(tensor)) return;
  const c10::NoGradGuard no_grad;
  if (!storage_)
    storage_ = c10::Storage(c10::Storage::use_byte_size_t(), bytes(), data_of(memory_, options_.device()),
                            nullptr, false);
  at::Tensor moved = at::empty({0}, options_);
  moved.set_(storage_, static_cast<std::int64_t>(parts_[part].offset), shapes_[part].sizes,
             shapes_[part].strides);
  moved.copy_(tensor.detach());
  if (tensor.scalar_type() != moved.scalar_type())
    tensor.mutable_grad() = at::Tensor();  // it has that type, too
  tensor.set_data(moved);
}

bool FlatTensors::holds(const at::Tensor& tensor) const noexcept {
  return storage_ && tensor.has_storage() &&
         tensor.storage().unsafeGetStorageImpl() == storage_.unsafeGetStorageImpl();
}

void FlatTensors::require_alike(std::size_t part, const NamedTensor& named) const {
  const at::Tensor& tensor = named.tensor;
  const at::ScalarType type = c10::typeMetaToScalarType(options_.dtype());
  const at::IntArrayRef sizes = shapes_[part].sizes;
  const bool is_plain = tensor.layout() == at::kStrided && tensor.device() == options_.device();
  if (is_plain && tensor.scalar_type() == type && tensor.sizes() == sizes) return;
  std::ostringstream text;
  text << '\'' << named.name << "' is ";
  if (is_plain) {
    text << c10::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  } else {
    text << "sparse, or on " << tensor.device() << " and not on " << options_.device() << ',';
  }
  text << " and was " << c10::toString(type) << ' ' << sizes
       << " at first: after to() and the like make a new one";
  throw InvalidArgumentError(text.str(), {});
}

Slice FlatTensors::overlap(std::size_t part, const Slice& range) const {
  const auto begin = static_cast<std::int64_t>(parts_[part].offset);
  const auto end = begin + static_cast<std::int64_t>(parts_[part].count);
  const std::int64_t from = std::clamp(begin, range.begin, range.end());
  return {from, std::clamp(end, range.begin, range.end()) - from};
}

FlatTensors FlatTensors::within(const Slice& range) const {
  FlatTensors result;
  result.options_ = options_;
  result.dtype_ = dtype_;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const Slice slice = overlap(part, range);
    Sizes sizes{slice.length};
    if (shapes_[part].sizes.size() > 1) sizes.push_back(1);
    result.parts_.push_back({parts_[part].name, sizes, static_cast<std::uint64_t>(slice.begin - range.begin),
                             static_cast<std::uint64_t>(slice.length)});
    result.shapes_.push_back({shapes_[part].member, sizes, Sizes(sizes.size(), 1)});
  }
  result.count_ = static_cast<std::uint64_t>(range.length);
  if (memory_)
    result.memory_ = Memory(memory_, memory_.get() + static_cast<std::size_t>(range.begin) * size_of(dtype_));
  return result;
}

FlatTensors FlatTensors::alike(at::ScalarType type) const {
  FlatTensors result;
  result.parts_ = parts_;
  result.shapes_ = shapes_;
  result.count_ = count_;
  result.dtype_ = dtype_of_tensor(type);
  result.options_ = options_.dtype(type);
  return result;
}

void FlatTensors::release() {
  if (storage_) storage_.set_data_ptr(at::DataPtr(nullptr, options_.device()));
  memory_.reset();
}

void FlatTensors::provide() {
  if (memory_) return;
  memory_ = allocate(bytes(), options_.device());
  if (storage_) storage_.set_data_ptr(data_of(memory_, options_.device()));
}

std::vector<FlatTensors> flats_by_type(std::span<const NamedTensor> like) {
  std::vector<std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < like.size(); ++i) {
    const auto same = std::ranges::find_if(members, [&](const auto& some) {
      return like[some.front()].tensor.scalar_type() == like[i].tensor.scalar_type();
    });
    (same == members.end() ? members.emplace_back() : *same).push_back(i);
  }
  std::vector<FlatTensors> flats;
  for (const auto& some : members) flats.emplace_back(like, some);
  return flats;
}

void pack(std::span<const NamedTensor> from, std::span<const FlatTensors> to) {
  const c10::NoGradGuard no_grad;
  for (const bool is_checked : {false, true}) {
    for (const FlatTensors& flat : to) {
      for (std::size_t part = 0; part < flat.parts().size(); ++part) {
        const NamedTensor& named = from[flat.member(part)];
        is_checked ? static_cast<void>(flat.view(part).copy_(named.tensor)) : flat.require_alike(part, named);
      }
    }
  }
}

void unpack(std::span<const FlatTensors> from, std::span<const NamedTensor> to) {
  const c10::NoGradGuard no_grad;
  for (const FlatTensors& flat : from) {
    for (std::size_t part = 0; part < flat.parts().size(); ++part)
      at::Tensor(to[flat.member(part)].tensor).copy_(flat.view(part));
  }
}

bool are_finite(std::span<const FlatTensors> flats) {
  return std::ranges::all_of(flats, is_finite);
}

void save(std::span<const FlatTensors> flats, torch::serialize::OutputArchive& archive,
          const std::string& name) {
  for (std::size_t i = 0; i < flats.size(); ++i) {
    std::vector<at::Tensor> values;
    for (std::size_t part = 0; part < flats[i].parts().size(); ++part)
      values.push_back(flats[i].view(part).reshape({-1}));
    archive.write(name + std::to_string(i), at::cat(values));
  }
}

void load(std::span<const FlatTensors> flats, torch::serialize::InputArchive& archive,
          const std::string& name) {
  for (std::size_t i = 0; i < flats.size(); ++i) {
    at::Tensor saved;
    const at::Tensor flat = flats[i].flat();
    load_or_refuse(name.c_str(), [&] {
      archive.read(name + std::to_string(i), saved);
      if (saved.scalar_type() != flat.scalar_type() || saved.sizes() != flat.sizes())
        throw std::runtime_error("it is that of another model");
    });
    for (std::size_t part = 0; part < flats[i].parts().size(); ++part) {
      const at::Tensor view = flats[i].view(part);
      const auto& [_, __, offset, count] = flats[i].parts()[part];
      view.copy_(saved.narrow(0, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(count))
                     .view(view.sizes()));
    }
  }
}

at::Tensor shared_empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  // at::empty() itself makes no tensor that wants a gradient.
  at::Tensor tensor = without_values(at::empty(sizes, options.requires_grad(false)));
  return tensor.set_requires_grad(options.requires_grad());
}

at::Tensor shared_like(const at::Tensor& tensor) {
  require_dense_on_cpu(tensor);
  return without_values(at::empty_like(tensor));
}

void move_to_shared_memory(const at::Tensor& tensor) {
  require_dense_on_cpu(tensor);
  if (is_shared(tensor)) return;
  const at::DataPtr before = replace_memory(tensor);
  if (const at::Storage& storage = tensor.storage(); storage.nbytes() != 0) {
    std::memcpy(storage.data_ptr().get(), before.get(), storage.nbytes());
  }
}

void move_to_shared_memory(const torch::nn::Module& module) {
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined()) move_to_shared_memory(tensor);
    }
  }
}

bool is_shared(const at::Tensor& tensor) {
  const at::Storage& storage = tensor.storage();
  return is_shared(storage.data_ptr().get(), storage.nbytes());
}

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kKept = 1 << 30;
  // Once one of the thresholds is set, glibc no longer adapts the other.
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_TOP_PAD, 64 << 20);  // threads that are not the main one keep a whole heap
#endif
}

}  // namespace kolo

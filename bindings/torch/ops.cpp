#include "ops.hpp"

#include <array>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "group.hpp"
#include "interrupt.hpp"
#include "kolo/trouble.hpp"
#include "tensors.hpp"

namespace kolo::pytorch {
namespace {

using Text = c10::string_view;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::string owned(Text text) {
  return {text.data(), text.size()};
}

#if TORCH_VERSION_MAJOR >= 2
c10::intrusive_ptr<Base> resolve(const std::string& name) {
  return c10d::resolve_process_group(name)->getBackend(c10::DeviceType::CPU);
}
#else
struct Names {
  std::mutex mutex;
  std::unordered_map<std::string, c10::weak_intrusive_ptr<Base>> groups;
};
Names& names() {
  static auto* const instance = new Names;
  return *instance;
}
c10::intrusive_ptr<Base> resolve(const std::string& name) {
  const std::lock_guard lock(names().mutex);
  const auto found = names().groups.find(name);
  auto group = found == names().groups.end() ? c10::intrusive_ptr<Base>() : found->second.lock();
  if (group == nullptr)
    throw std::invalid_argument(with_code("torch.ops.kolo: there is no group \"" + name + "\""));
  return group;
}
#endif

/// The group of a name. A thread mostly asks for the one that it has asked for before.
c10::intrusive_ptr<Group> group_of(Text name) {
  static const c10::intrusive_ptr<Group> kNone;
  thread_local std::string known;
  thread_local c10::weak_intrusive_ptr<Group> last{kNone};
  if (name == Text(known)) {
    auto group = last.lock();
    if (group != nullptr && !group->is_closed()) return group;
  }
  const auto base = resolve(owned(name));
  const auto group = c10::dynamic_intrusive_pointer_cast<Group>(base);
  if (group == nullptr)
    throw std::invalid_argument(
        with_code("torch.ops.kolo: the group \"" + owned(name) + "\" is not one of kolo's"));
  known = owned(name);
  last = c10::weak_intrusive_ptr<Group>(group);
  return group;
}

c10d::ReduceOp reduce_op_of(Text name) {
  using Op = c10d::ReduceOp;
  static constexpr std::array<std::pair<const char*, Op::RedOpType>, 8> kNames{{{"sum", Op::SUM},
                                                                                {"avg", Op::AVG},
                                                                                {"product", Op::PRODUCT},
                                                                                {"min", Op::MIN},
                                                                                {"max", Op::MAX},
                                                                                {"band", Op::BAND},
                                                                                {"bor", Op::BOR},
                                                                                {"bxor", Op::BXOR}}};
  for (const auto& [known, op] : kNames) {
    if (name == Text(known)) return op;
  }
  throw std::invalid_argument(with_code("torch.ops.kolo: \"" + owned(name) +
                                        "\" must be sum, avg, product, min, max, band, bor or bxor"));
}

/// A tensor like `data` of another number of rows. A number counts as one row.
at::Tensor with_rows(const at::Tensor& data, std::int64_t times, std::int64_t divided_by) {
  std::vector<c10::SymInt> sizes = data.sym_sizes().vec();
  if (sizes.empty()) sizes.emplace_back(1);
  if (divided_by != 1) {
    TORCH_CHECK_VALUE(sizes.front() % divided_by == 0,
                      "torch.ops.kolo.reduce_scatter_tensor: ", sizes.front(), " rows for ", divided_by,
                      " ranks [K851]");
    sizes.front() = sizes.front() / divided_by;
  }
  sizes.front() = sizes.front() * times;
  return data.new_empty_symint(sizes);
}

void check_size(const Group& group, std::int64_t size) {
  TORCH_CHECK_VALUE(group.getSize() == size, "torch.ops.kolo: group_size is ", size, ", and the group has ",
                    group.getSize(), " ranks [K851]");
}

}  // namespace

void all_reduce_in_place(const at::Tensor& data, Text op_name, Text group_name) {
  const auto group = group_of(group_name);
  c10d::AllreduceOptions asked;
  asked.reduceOp = reduce_op_of(op_name);
  const WithoutLock unlocked;
  if (!is_plain(data) || averages_integers(asked.reduceOp, data)) {
    Tensors tensors{data};
    group->allreduce(tensors, asked)->wait();
    return;
  }
  group->block("all_reduce", data, data, [&](Communicator& communicator, const CallOptions&) {
    CallOptions options = group->all_reduce_options(asked, data);
    options.waits_at_once = true;
    return communicator.all_reduce_async(buffer_of(data), reduction_of(asked.reduceOp, data), options);
  });
}

namespace {

at::Tensor all_reduce(const at::Tensor& data, Text op, Text group) {
  at::Tensor result = data.clone(at::MemoryFormat::Contiguous).resolve_conj().resolve_neg();
  all_reduce_in_place(result, op, group);
  return result;
}

at::Tensor all_gather_into_tensor(const at::Tensor& data, std::int64_t size, Text name) {
  const auto group = group_of(name);
  check_size(*group, size);
  const at::Tensor in = data.resolve_conj().resolve_neg().contiguous();
  at::Tensor out = with_rows(in, size, 1);
  const WithoutLock unlocked;
  group->block(
      "all_gather_into_tensor", in, out, [&](Communicator& communicator, const CallOptions& options) {
        return communicator.all_gather_async(ConstBuffer(buffer_of(in)), buffer_of(out), {}, options);
      });
  return out;
}

at::Tensor reduce_scatter_tensor(const at::Tensor& data, Text op_name, std::int64_t size, Text name) {
  const auto group = group_of(name);
  check_size(*group, size);
  const auto op = reduce_op_of(op_name);
  const at::Tensor in = data.resolve_conj().resolve_neg().contiguous();
  at::Tensor out = with_rows(in, 1, size);
  const WithoutLock unlocked;
  if (averages_integers(op, in)) {
    c10d::ReduceScatterOptions asked;
    asked.reduceOp = op;
    at::Tensor from = in;
    group->_reduce_scatter_base(out, from, asked)->wait();
    return out;
  }
  group->block("reduce_scatter_tensor", in, out, [&](Communicator& communicator, const CallOptions& options) {
    return communicator.reduce_scatter_async(ConstBuffer(buffer_of(in)), buffer_of(out), reduction_of(op, in),
                                             {}, options);
  });
  return out;
}

enum Kind : std::int64_t { kAllReduceInPlace, kAllReduce, kAllGather, kReduceScatter };

template <typename Function>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

/// Calls an operator through PyTorch's dispatcher.
at::Tensor call(std::int64_t kind, const at::Tensor& data, Text op, std::int64_t size, Text group) {
  static const auto in_place = find<decltype(all_reduce_in_place)>("kolo::all_reduce_");
  static const auto out_of_place = find<decltype(all_reduce)>("kolo::all_reduce");
  static const auto gather = find<decltype(all_gather_into_tensor)>("kolo::all_gather_into_tensor");
  static const auto scatter = find<decltype(reduce_scatter_tensor)>("kolo::reduce_scatter_tensor");
  if (kind == kAllReduce) return out_of_place.call(data, op, group);
  if (kind == kAllGather) return gather.call(data, size, group);
  if (kind == kReduceScatter) return scatter.call(data, op, size, group);
  in_place.call(data, op, group);
  return data;
}

/// The gradient of a sum over ranks is the sum of their gradients, and so on: each operator's is another one.
struct Differentiable : torch::autograd::Function<Differentiable> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& data, std::int64_t kind,
                            const std::string& op, std::int64_t size, const std::string& group) {
    if (op != "sum" && op != "avg")
      throw std::invalid_argument(
          with_code("torch.ops.kolo: only sum and avg have a gradient, and not " + op));
    if (kind == kAllReduceInPlace) context->mark_dirty({data});
    context->saved_data["call"] = std::tuple(kind, op, size, group);
    const at::AutoDispatchBelowADInplaceOrView guard;
    return call(kind, data, op, size, group);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto [kind, op, size, group] =
        context->saved_data["call"].to<std::tuple<std::int64_t, std::string, std::int64_t, std::string>>();
    at::Tensor gradient;
    if (kind == kReduceScatter) {
      gradient = call(kAllGather, gradients[0], "", size, group);
      if (op == "avg") gradient = gradient / size;
    } else {
      gradient = call(kind == kAllGather ? kReduceScatter : kAllReduce, gradients[0], op, size, group);
    }
    return {gradient, {}, {}, {}, {}};
  }
};

/// What autograd has to do with a call.
at::Tensor call_with_autograd(std::int64_t kind, const at::Tensor& data, Text op, std::int64_t size,
                              Text group) {
  const bool in_place = kind == kAllReduceInPlace;
  if ((at::GradMode::is_enabled() && data.requires_grad()) || data._fw_grad(0).defined()) {
    TORCH_CHECK(!in_place || !data.is_leaf(),
                "torch.ops.kolo.all_reduce_: a leaf that requires a gradient [K851]");
    return Differentiable::apply(data, kind, owned(op), size, owned(group));
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (in_place) torch::autograd::impl::bump_version(data);
  return call(kind, data, op, size, group);
}

}  // namespace

void name_group([[maybe_unused]] const std::string& name,
                [[maybe_unused]] const c10::intrusive_ptr<Base>& group) {
#if TORCH_VERSION_MAJOR < 2
  const std::lock_guard lock(names().mutex);
  names().groups.insert_or_assign(name, c10::weak_intrusive_ptr<Base>(group));
#endif
}

// The arguments are those of PyTorch's functional collectives.
TORCH_LIBRARY(kolo, library) {
  library.def("all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> ()");
  library.def("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor");
  library.def("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor");
  library.def("reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor");
}

TORCH_LIBRARY_IMPL(kolo, CPU, library) {
  library.impl("all_reduce_", all_reduce_in_place);
  library.impl("all_reduce", all_reduce);
  library.impl("all_gather_into_tensor", all_gather_into_tensor);
  library.impl("reduce_scatter_tensor", reduce_scatter_tensor);
}

TORCH_LIBRARY_IMPL(kolo, Meta, library) {
  library.impl("all_reduce_", [](const at::Tensor&, Text, Text) {});
  library.impl("all_reduce",
               [](const at::Tensor& data, Text, Text) { return data.new_empty_symint(data.sym_sizes()); });
  library.impl("all_gather_into_tensor",
               [](const at::Tensor& data, std::int64_t size, Text) { return with_rows(data, size, 1); });
  library.impl("reduce_scatter_tensor", [](const at::Tensor& data, Text, std::int64_t size, Text) {
    return with_rows(data, 1, size);
  });
}

TORCH_LIBRARY_IMPL(kolo, Autograd, library) {
  library.impl("all_reduce_", [](const at::Tensor& data, Text op, Text group) {
    call_with_autograd(kAllReduceInPlace, data, op, 0, group);
  });
  library.impl("all_reduce", [](const at::Tensor& data, Text op, Text group) {
    return call_with_autograd(kAllReduce, data, op, 0, group);
  });
  library.impl("all_gather_into_tensor", [](const at::Tensor& data, std::int64_t size, Text group) {
    return call_with_autograd(kAllGather, data, "sum", size, group);
  });
  library.impl("reduce_scatter_tensor", [](const at::Tensor& data, Text op, std::int64_t size, Text group) {
    return call_with_autograd(kReduceScatter, data, op, size, group);
  });
}

}  // namespace kolo::pytorch

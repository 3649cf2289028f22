#include "methods/parameter_server/shard.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/optim.hpp"

namespace kolo::methods {
namespace {

using torch::optim::AdagradOptions;
using torch::optim::SGDOptions;

at::Tensor share_of(const ServerLayout& layout, int server) {
  const c10::NoGradGuard no_grad;
  const at::Tensor flat = at::empty({static_cast<std::int64_t>(layout.elements())}, at::kFloat);
  const auto views = layout.views_of(flat);
  for (std::size_t i = 0; i < views.size(); ++i) views[i].copy_(layout.parameters()[i].tensor);
  const ElementRange range = layout.share_of(server);
  return flat.slice(0, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.end)).clone();
}

at::Tensor own_rows(const ServerTable& table, int server, int servers) {
  const at::Tensor rows = table.tensor.detach().view({static_cast<std::int64_t>(table.rows), -1});
  return rows.slice(0, std::min<std::int64_t>(server, rows.size(0)), rows.size(0), servers).clone();
}

/// Throws InvalidArgumentError unless the update of an element depends on that element alone.
void require_elementwise(const torch::optim::Optimizer& optimizer) {
  constexpr std::array kServed = {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"};
  const std::string name = traits_of(optimizer).name;
  if (std::ranges::find(kServed, name) != kServed.end()) return;
  const std::string which = name == "unknown" ? "an optimizer of an unknown kind" : name;
  throw InvalidArgumentError(which +
                                 ": a server has a range of elements, of which SGD, Adam, AdamW, RMSprop and "
                                 "Adagrad move each alone; others need whole layers",
                             {});
}

/// Throws InvalidArgumentError unless the optimizer moves rows with gradients and no others.
void require_rows(torch::optim::Optimizer& optimizer, const at::Tensor& rows, const std::string& name) {
  for (auto& group : optimizer.param_groups()) {
    const auto is_table = [&](const at::Tensor& parameter) { return parameter.is_same(rows); };
    if (std::ranges::none_of(group.params(), is_table)) continue;
    const auto* const sgd = dynamic_cast<const SGDOptions*>(&group.options());
    if (sgd != nullptr && sgd->weight_decay() == 0 && sgd->momentum() == 0) return;
    const auto* const adagrad = dynamic_cast<const AdagradOptions*>(&group.options());
    if (adagrad != nullptr && adagrad->weight_decay() == 0) return;
    const auto* const adam = dynamic_cast<const torch::optim::AdamOptions*>(&group.options());
    if (adam != nullptr && adam->weight_decay() == 0 && dynamic_cast<SparseAdam*>(&optimizer) != nullptr)
      return;
    throw InvalidArgumentError("the optimizer of table '" + name +
                                   "' does not move its rows one by one: SGD without momentum, Adagrad and "
                                   "SparseAdam do, each without weight_decay",
                               {});
  }
  throw InvalidArgumentError("the optimizer lacks table '" + name + '\'', {});
}

}  // namespace

ServerShard::ServerShard(const ServerLayout& layout, int server, const OptimizerFactory& make_optimizer,
                         PushKind kind)
    : servers_(static_cast<std::uint64_t>(layout.servers())),
      server_(static_cast<std::uint64_t>(server)),
      kind_(kind),
      parameters_(share_of(layout, server)),
      rows_(layout.rows_on(server)) {
  std::vector<at::Tensor> moved = {parameters_};
  for (const ServerTable& table : layout.tables()) {
    tables_.push_back({table, own_rows(table, server, layout.servers())});
    tables_.back().whole.tensor = at::Tensor();
    moved.push_back(tables_.back().own);
  }
  if (kind == PushKind::weights) return;
  if (!make_optimizer)
    throw InvalidArgumentError("no optimizer, which moves the parameters by gradients", {});
  for (at::Tensor& tensor : moved) tensor.requires_grad_();
  optimizer_ = make_optimizer(moved);
  require_elementwise(*optimizer_);
  for (const Table& table : tables_) require_rows(*optimizer_, table.own, table.whole.name);
}

RowSet ServerShard::rows_of(std::span<const std::uint64_t> ids) const {
  RowSet rows;
  std::size_t at = 0;
  for (std::size_t t = 0; t < tables_.size() && at < ids.size(); ++t) {
    const ServerTable& table = tables_[t].whole;
    std::vector<std::int64_t> local;
    for (; at < ids.size() && ids[at] >= table.first_id && ids[at] - table.first_id < table.rows; ++at) {
      const std::uint64_t row = ids[at] - table.first_id;
      if (row % servers_ != server_) {
        throw InvalidArgumentError("row " + std::to_string(row) + " of table '" + table.name +
                                       "' is on server " + std::to_string(row % servers_),
                                   {});
      }
      local.push_back(static_cast<std::int64_t>(row / servers_));
    }
    if (local.empty()) continue;
    rows.elements += local.size() * table.width;
    const at::Tensor places = at::empty({static_cast<std::int64_t>(local.size())}, at::kLong);
    std::memcpy(places.data_ptr(), local.data(), local.size() * sizeof(std::int64_t));
    rows.tables.push_back({t, places});
  }
  if (at < ids.size())
    throw InvalidArgumentError("row id " + std::to_string(ids[at]) + " is of no table, or out of order", {});
  return rows;
}

void ServerShard::apply(std::span<const Contribution> contributions) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < contributions.size(); ++i) {
    const auto [push, factor] = contributions[i];
    if (factor != 1) push->elements.mul_(factor);
    if (push->values.defined() && factor != 1) push->values.mul_(factor);
    if (i > 0) contributions[0].push->elements.add_(push->elements);
  }
  if (kind_ == PushKind::gradients) {
    step(contributions);
  } else {
    average(contributions);
  }
  ++version_;
}

void ServerShard::step(std::span<const Contribution> contributions) {
  parameters_.mutable_grad() = contributions[0].push->elements;
  for (std::size_t t = 0; t < tables_.size(); ++t)
    tables_[t].own.mutable_grad() = gradient_of(t, contributions);
  optimizer_->step();
  parameters_.mutable_grad() = at::Tensor();
}

void ServerShard::average(std::span<const Contribution> contributions) {
  double moved = 0;  // what is left of the parameters is 1 - moved
  for (const Contribution& contribution : contributions) moved += contribution.factor;
  parameters_.mul_(std::max(1 - moved, 0.0)).add_(contributions[0].push->elements);
}

at::Tensor ServerShard::gradient_of(std::size_t table, std::span<const Contribution> contributions) const {
  const auto width = static_cast<std::int64_t>(tables_[table].whole.width);
  std::vector<at::Tensor> places, values;
  for (const auto& [push, factor] : contributions) {
    std::int64_t offset = 0;
    for (const auto& [t, local] : push->rows.tables) {
      const std::int64_t end = offset + local.numel() * static_cast<std::int64_t>(tables_[t].whole.width);
      if (t == table) {
        places.push_back(local);
        values.push_back(push->values.slice(0, offset, end).view({-1, width}));
      }
      offset = end;
    }
  }
  if (places.empty()) return {};
  return at::sparse_coo_tensor(at::cat(places).unsqueeze(0), at::cat(values), tables_[table].own.sizes())
      .coalesce();
}

at::Tensor ServerShard::values_of(const RowSet& rows) const {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const auto& [table, local] : rows.tables)
    values.push_back(tables_[table].own.index_select(0, local).flatten());
  return values.empty() ? at::empty({0}, at::kFloat) : at::cat(values);
}

void ServerShard::save(torch::serialize::OutputArchive& archive) const {
  archive.write("servers", c10::IValue(static_cast<std::int64_t>(servers_)));
  archive.write("server", c10::IValue(static_cast<std::int64_t>(server_)));
  archive.write("version", c10::IValue(static_cast<std::int64_t>(version_)));
  archive.write("parameters", parameters_.detach());
  for (const Table& table : tables_) archive.write("table " + table.whole.name, table.own.detach());
  if (!optimizer_) return;
  torch::serialize::OutputArchive optimizer(archive.compilation_unit());
  optimizer_->save(optimizer);
  archive.write("optimizer", optimizer);
}

void ServerShard::load(torch::serialize::InputArchive& archive) {
  const c10::NoGradGuard no_grad;
  const auto number = [&](const char* name) {
    c10::IValue value;
    archive.read(name, value);
    return static_cast<std::uint64_t>(value.toInt());
  };
  if (number("servers") != servers_ || number("server") != server_) {
    throw std::runtime_error("it is of server " + std::to_string(number("server")) + " of " +
                             std::to_string(number("servers")) + ", not of " + std::to_string(server_) +
                             " of " + std::to_string(servers_));
  }
  const auto read = [&](const std::string& name, at::Tensor& into) {
    at::Tensor found;
    archive.read(name, found);
    if (found.sizes() != into.sizes()) throw std::runtime_error("its " + name + " have another shape");
    into.copy_(found);
  };
  read("parameters", parameters_);
  for (Table& table : tables_) read("table " + table.whole.name, table.own);
  version_ = number("version");
  if (!optimizer_) return;
  torch::serialize::InputArchive optimizer;
  if (!archive.try_read("optimizer", optimizer)) throw std::runtime_error("it has no optimizer");
  optimizer_->state().clear();  // load() leaves the state of parameters of which the archive has none
  optimizer_->load(optimizer);
}

}  // namespace kolo::methods

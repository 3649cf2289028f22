#include "methods/parameter_server.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "methods/parameter_server/layout.hpp"
#include "methods/parameter_server/plan.hpp"
#include "methods/parameter_server/server_link.hpp"

namespace kolo::methods {

class ParameterServerClient::Connections {
 public:
  Connections(std::shared_ptr<Store> store, int rank, int size, torch::nn::Module& module,
              ParameterServerOptions options)
      : options_(std::move(options)), worker_(rank - options_.servers), workers_(size - options_.servers) {
    store = make_prefix_store("parameter server/", std::move(store));
    PlanOfRank plan{.text = text_of(options_), .problem = problem_with(options_, size)};
    if (plan.problem.empty()) plan.problem = problem_of([&] { prepare(rank, module, plan.text); });
    agree_on_plan(*store, rank, size, plan, options_.timeout);
    if (store->add("worker/" + std::to_string(worker_), 1) > 1) {
      throw InvalidArgumentError(
          "worker " + std::to_string(worker_) + " starts again: a worker that was lost is dropped",
          {.peer = rank});
    }
    for (int server = 0; server < options_.servers; ++server) {
      links_.push_back(std::make_unique<ServerLink>(store, server, worker_, options_));
      links_.back()->connect(options_.timeout);
    }
  }

  ~Connections() {
    if (std::uncaught_exceptions() > exceptions_) return;
    for (const auto& link : links_) link->say_goodbye();
  }

  int worker() const { return worker_; }
  int workers() const { return workers_; }

  PushReport exchange(RequestKind kind) {
    const c10::NoGradGuard no_grad;
    std::vector<Exchange> exchanges(links_.size());
    for (std::size_t i = 0; i < links_.size(); ++i) {
      exchanges[i].kind = kind;
      if (is_pull(kind)) exchanges[i].answer = share(pulled_, i);
    }
    if (is_push(kind)) fill(exchanges);
    const PushReport report = report_of(run(std::move(exchanges)));
    if (is_pull(kind)) {
      for (std::size_t i = 0; i < pulled_views_.size(); ++i)
        layout_->parameters()[i].tensor.detach().copy_(pulled_views_[i]);
    }
    return report;
  }

  /// Asks again and again: others may compute for longer than one message may take.
  void finish() {
    constexpr std::chrono::milliseconds kLongest{500};
    const std::vector<Exchange> question(links_.size(), {.kind = RequestKind::finish});
    const auto is_finished = [](const Reply& reply) { return reply.outcome == PushOutcome::finished; };
    for (std::chrono::milliseconds pause{5}; !std::ranges::all_of(run(question), is_finished);
         pause = std::min(2 * pause, kLongest)) {
      std::this_thread::sleep_for(pause);
    }
    exchange(RequestKind::pull);
  }

  void pull_rows(const std::string& name, const at::Tensor& rows) {
    const c10::NoGradGuard no_grad;
    const ServerTable& table = table_of(name);
    if (rows.scalar_type() != at::kLong || rows.dim() != 1)
      throw InvalidArgumentError("rows of table '" + name + "' are int64 [n]", {});
    const at::Tensor unique = std::get<0>(at::_unique(rows));
    const std::int64_t count = unique.numel();
    if (count == 0) return;
    for (const auto row : {unique[0].item<std::int64_t>(), unique[count - 1].item<std::int64_t>()}) {
      if (row >= 0 && row < static_cast<std::int64_t>(table.rows)) continue;
      throw InvalidArgumentError("table '" + name + "' has " + std::to_string(table.rows) +
                                     " rows, and row " + std::to_string(row) + " was asked for",
                                 {});
    }
    std::vector<Exchange> exchanges(links_.size());
    std::vector<at::Tensor> places(links_.size());
    for (std::size_t i = 0; i < links_.size(); ++i) {
      places[i] = unique.index_select(0, of_server(unique, i));
      exchanges[i] = {.kind = RequestKind::pull_rows};
      add_ids(exchanges[i], table, places[i]);
      exchanges[i].answer =
          at::empty({places[i].numel(), static_cast<std::int64_t>(table.width)}, at::kFloat);
    }
    std::vector<at::Tensor> values;
    for (const Exchange& exchange : exchanges) values.push_back(exchange.answer);
    run(std::move(exchanges));
    const at::Tensor whole = table.tensor.detach().view({static_cast<std::int64_t>(table.rows), -1});
    for (std::size_t i = 0; i < links_.size(); ++i) whole.index_copy_(0, places[i], values[i]);
  }

 private:
  void prepare(int rank, torch::nn::Module& module, std::string& text) {
    if (rank < options_.servers) {
      throw InvalidArgumentError(
          "a ParameterServerClient, and the first " + std::to_string(options_.servers) + " ranks are servers",
          {});
    }
    layout_.emplace(module, options_);
    text += layout_->text();
    pushed_ = at::empty({static_cast<std::int64_t>(layout_->elements())}, at::kFloat);
    pulled_ = at::empty_like(pushed_);
    pushed_views_ = layout_->views_of(pushed_);
    pulled_views_ = layout_->views_of(pulled_);
  }

  at::Tensor share(const at::Tensor& flat, std::size_t server) const {
    const ElementRange range = layout_->share_of(static_cast<int>(server));
    return flat.slice(0, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.end));
  }

  /// What is pushed to each server.
  void fill(std::vector<Exchange>& exchanges) {
    const bool has_weights = options_.push == PushKind::weights;
    for (std::size_t i = 0; i < pushed_views_.size(); ++i) {
      const at::Tensor& parameter = layout_->parameters()[i].tensor;
      const at::Tensor& values = has_weights ? parameter : parameter.grad();
      if (!values.defined()) {
        pushed_views_[i].zero_();
      } else if (values.is_sparse()) {
        throw InvalidArgumentError("the gradient of parameter '" + layout_->parameters()[i].name +
                                       "' is sparse: name it in sparse_parameters",
                                   {});
      } else {
        pushed_views_[i].copy_(values);
      }
    }
    for (std::size_t s = 0; s < exchanges.size(); ++s) exchanges[s].elements = share(pushed_, s);
    for (const ServerTable& table : layout_->tables()) fill_rows(table, exchanges);
  }

  void fill_rows(const ServerTable& table, std::vector<Exchange>& exchanges) const {
    if (!table.tensor.grad().defined()) return;
    if (!table.tensor.grad().is_sparse())
      throw InvalidArgumentError("the gradient of table '" + table.name + "' is not sparse", {});
    const at::Tensor gradient = table.tensor.grad().coalesce();
    if (gradient._nnz() == 0) return;
    const at::Tensor rows = gradient.indices().select(0, 0);
    const at::Tensor values = gradient.values().reshape({rows.numel(), -1});
    for (std::size_t s = 0; s < exchanges.size(); ++s) {
      const at::Tensor which = of_server(rows, s);
      add_ids(exchanges[s], table, rows.index_select(0, which));
      const at::Tensor own = values.index_select(0, which).flatten();
      at::Tensor& all = exchanges[s].row_values;
      all = all.defined() ? at::cat({all, own}) : own;
    }
  }

  at::Tensor of_server(const at::Tensor& rows, std::size_t server) const {
    return rows.remainder(options_.servers).eq(static_cast<std::int64_t>(server)).nonzero().flatten();
  }

  static void add_ids(Exchange& exchange, const ServerTable& table, const at::Tensor& rows) {
    const at::Tensor dense = rows.contiguous();
    const auto* const first = dense.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < dense.numel(); ++i)
      exchange.rows.push_back(table.first_id + static_cast<std::uint64_t>(first[i]));
  }

  const ServerTable& table_of(const std::string& name) const {
    const auto found = std::ranges::find(layout_->tables(), name, &ServerTable::name);
    if (found == layout_->tables().end()) throw InvalidArgumentError("there is no table '" + name + '\'', {});
    return *found;
  }

  /// All servers at a time: what was sent to one moves while another is waited for.
  std::vector<Reply> run(std::vector<Exchange> exchanges) {
    for (std::size_t i = 0; i < links_.size(); ++i) links_[i]->start(std::move(exchanges[i]));
    std::vector<Reply> replies;
    for (const auto& link : links_) replies.push_back(link->finish());
    return replies;
  }

  static PushReport report_of(const std::vector<Reply>& replies) {
    PushReport report;
    for (const Reply& reply : replies) {
      report.staleness = std::max(report.staleness, reply.staleness);
      report.dropped += reply.outcome == PushOutcome::dropped ? 1 : 0;
      report.divided += reply.outcome == PushOutcome::divided ? 1 : 0;
    }
    return report;
  }

  ParameterServerOptions options_;
  int worker_, workers_;
  int exceptions_ = std::uncaught_exceptions();
  std::optional<ServerLayout> layout_;
  at::Tensor pushed_, pulled_;  ///< all elements, server by server
  std::vector<at::Tensor> pushed_views_, pulled_views_;
  std::vector<std::unique_ptr<ServerLink>> links_;  ///< after the memory that they use
};

ParameterServerClient::ParameterServerClient(std::shared_ptr<Store> store, int rank, int size,
                                             torch::nn::Module& module, ParameterServerOptions options)
    : connections_(std::make_unique<Connections>(std::move(store), rank, size, module, std::move(options))) {}
ParameterServerClient::~ParameterServerClient() = default;

int ParameterServerClient::worker() const noexcept {
  return connections_->worker();
}
int ParameterServerClient::workers() const noexcept {
  return connections_->workers();
}
void ParameterServerClient::pull() {
  connections_->exchange(RequestKind::pull);
}
PushReport ParameterServerClient::push() {
  return connections_->exchange(RequestKind::push);
}
PushReport ParameterServerClient::step() {
  return connections_->exchange(RequestKind::push_pull);
}
void ParameterServerClient::pull_rows(const std::string& table, const at::Tensor& rows) {
  connections_->pull_rows(table, rows);
}
void ParameterServerClient::finish() {
  connections_->finish();
}

}  // namespace kolo::methods

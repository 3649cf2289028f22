#include "comm/wireup.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config.hpp"
#include "base/cores.hpp"
#include "base/log.hpp"
#include "base/text_reader.hpp"
#include "comm/metrics_server.hpp"
#include "comm/settings.hpp"
#include "comm/state.hpp"
#include "engine/shared_memory/segment.hpp"
#include "net/hmac.hpp"
#include "observe/metrics_recorder.hpp"
#include "observe/timeline_recorder.hpp"
#include "transport/host.hpp"
#include "transport/self_endpoint.hpp"
#include "transport/unconnected_endpoint.hpp"

namespace kolo::comm {
namespace {

struct Offered {
  std::string name;
  std::string address;
};

/// What a rank publishes of itself.
struct Published {
  std::string host;       ///< Terms::host
  std::string machine;    ///< equal also for ranks in containers with networks of their own
  std::string host_name;  ///< for logs and tuning tables
  Cores cores;            ///< that the rank may use
  std::string key;        ///< equal if the job's key is
  std::vector<Offered> transports;
};

std::string encode(const Published& mine) {
  // Last the cores, which may be no text.
  std::string text =
      fmt::format("{} {} {} {} {}\n", mine.host, mine.machine, mine.host_name, mine.key, to_text(mine.cores));
  for (const Offered& offer : mine.transports) text += offer.name + ' ' + offer.address + '\n';
  return text;
}

Published decode(const std::string& text) {
  Published published;
  TextReader lines(text);
  std::string line;
  std::getline(lines, line);
  std::string cores;
  TextReader(line) >> published.host >> published.machine >> published.host_name >> published.key >> cores;
  published.cores = parse_cores(cores);
  while (std::getline(lines, line)) {
    const auto space = line.find(' ');
    if (space == std::string::npos) continue;
    published.transports.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return published;
}

/// The network address, which tells hosts apart even where they share a name; else that name.
std::string name_of_host(const std::map<std::string, std::unique_ptr<transport::Transport>>& transports) {
  for (const auto& [name, transport] : transports) {
    if (std::string address = transport->host_address(); !address.empty()) return address;
  }
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

/// The hosts' numbers in the order of their first ranks; none where all ranks are on one.
void number_hosts(const std::vector<Published>& all, Wireup& wireup) {
  std::vector<std::string> known;
  for (const Published& one : all) {
    const auto found = std::find(known.begin(), known.end(), one.host);
    wireup.hosts.push_back(static_cast<int>(found - known.begin()));
    if (found != known.end()) continue;
    known.push_back(one.host);
    wireup.host_names.push_back(one.host_name);
  }
  if (known.size() == 1) wireup.hosts.clear();
}

/// Short enough for a label; what shrink() adds to the job's name stays.
std::string name_of_group(const std::string& job) {
  constexpr std::size_t kDigits = 8;
  const auto added = std::min(job.find('/'), job.size());
  std::string name = job.substr(0, std::min(kDigits, added)) + job.substr(added);
  std::ranges::replace(name, '/', '-');
  return name;
}

/// Records the timeline and counts for metrics, if they are asked for. `hosts`: as EngineOptions::hosts.
std::vector<std::unique_ptr<observe::Observer>> make_observers(
    int rank, const std::string& host, const std::vector<std::string>& hosts,
    const std::vector<std::unique_ptr<transport::Endpoint>>& endpoints, const Terms& terms,
    const std::shared_ptr<Timeline>& timeline) {
  std::vector<std::unique_ptr<observe::Observer>> observers;
  const std::string group = name_of_group(terms.job);
  if (timeline) {
    observers.push_back(std::make_unique<observe::TimelineRecorder>(
        timeline, observe::TimelineFile{config().timeline, rank, host, group}));
  }
  if (auto page = serve_metrics()) {
    observe::RankMetrics described;
    described.group = group;
    described.rank = rank;
    described.host = host;
    for (const schedule::CollectiveTraits& one : schedule::kCollectives)
      described.collectives.push_back({.name = one.name});
    for (std::size_t peer = 0; peer < endpoints.size(); ++peer) {
      observe::PeerMetrics& made = described.peers.emplace_back();
      made.rank = static_cast<int>(peer);
      made.host = hosts.empty() ? host : hosts[peer];
      made.transport = endpoints[peer]->transport();
    }
    observers.push_back(std::make_unique<observe::MetricsRecorder>(std::move(page), std::move(described)));
  }
  return observers;
}

/// What the peer offers for this transport, if this rank reaches it; else null. join() tries transports in
/// the lower rank's order of preference, so that both sides choose the same.
const Offered* choose(const transport::Transport& transport, const std::vector<Offered>& theirs) {
  const std::string own = transport.address();
  for (const Offered& offer : theirs) {
    if (offer.name == transport.name() && transport.reaches(own, offer.address)) return &offer;
  }
  return nullptr;
}

/// The cores of the other ranks on the machine of `rank`.
std::vector<Cores> cores_beside(std::size_t rank, const std::vector<Published>& all) {
  std::vector<Cores> beside;
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (peer != rank && all[peer].machine == all[rank].machine) beside.push_back(all[peer].cores);
  }
  return beside;
}

/// The number of cores that the ranks of a host may use together, on the host that has the fewest.
int fewest_cores(const std::vector<Published>& all) {
  std::map<std::string, Cores> of_host;
  for (const Published& one : all) of_host[one.host] |= one.cores;
  int fewest = std::numeric_limits<int>::max();
  for (const auto& [host, cores] : of_host) fewest = std::min(fewest, cores.count());
  return fewest;
}

/// If each rank has a core and polls only memory, it spins until a wait is as long as several wake-ups. A
/// wake-up takes some 10 us, in a virtual machine 150, and milliseconds if other programs want the machine's
/// cores. Ranks sleep sooner if they share cores, if spinning uses up a quota that their work needs, or if a
/// poll is a system call.
std::chrono::nanoseconds spin_time(const std::vector<std::unique_ptr<transport::Endpoint>>& endpoints,
                                   bool oversubscribed, double quota) {
  constexpr std::chrono::microseconds kUsual{100};
  constexpr std::chrono::microseconds kInMemory{1000};
  if (config().spin_us >= 0) return std::chrono::microseconds(config().spin_us);
  const bool in_memory =
      std::all_of(endpoints.begin(), endpoints.end(), [](const auto& e) { return e->polls_are_free(); });
  const bool may_all_spin = !oversubscribed && static_cast<double>(endpoints.size()) <= quota;
  return in_memory && may_all_spin ? kInMemory : kUsual;
}

}  // namespace

std::chrono::nanoseconds timeout_of(const Options& options) {
  return options.timeout.count() > 0 ? options.timeout : config().timeout;
}

Offer make_offer(int rank, const Terms& terms) {
  const auto allowed = allowed_transports(terms.options).value_or_throw();
  auto transport_options = transport::make_transport_options(config(), key_of(terms.options), terms.job,
                                                             terms.store_host, terms.host)
                               .value_or_throw();
  transport_options.segment_bytes = sizeof(engine::shared_memory::Segment);

  Offer offer;
  Published mine;
  if (transport_options.key.empty() && !transport_options.insecure) {
    offer.why_not =
        "; without a key tcp stays on loopback: set Options::key, KOLO_KEY or KOLO_KEY_FILE, the same on all "
        "ranks";
  }
  for (const transport::TransportFactory& factory : allowed) {
    const std::string name(factory.name);
    auto made = factory.make(transport_options);
    if (!made.ok()) {
      // The cause is a setting, not this machine: going on without the transport would hide it.
      if (made.status().code() == Code::invalid_argument) made.status().throw_if_error();
      log().info("rank {}: no {}: {}", rank, name, made.status().message());
      offer.why_not += "; no " + name + " here: " + made.status().message();
      continue;
    }
    mine.transports.push_back({name, (*made)->address()});
    offer.transports[name] = std::move(made).value();
  }
  mine.host = terms.host;
  mine.machine = transport::boot_id();
  if (mine.machine.empty()) mine.machine = terms.host;
  mine.host_name = name_of_host(offer.transports);
  mine.cores = usable_cores();
  mine.key = transport_options.key.empty()
                 ? "none"
                 : net::hmac_digits(transport_options.key, "kolo's job " + terms.job).substr(0, 16);
  offer.text = encode(mine);
  return offer;
}

Wireup join(int rank, Offer offer, const std::vector<std::string>& offers, const Terms& terms,
            const Deadline& deadline, const transport::IsGone& is_gone) {
  const int size = static_cast<int>(offers.size());
  std::vector<Published> all;
  for (const std::string& text : offers) all.push_back(decode(text));
  std::map<std::string, std::vector<transport::TransportPeer>> chosen;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    if (all[static_cast<std::size_t>(peer)].key != all[static_cast<std::size_t>(rank)].key) {
      fail_to_meet(
          fmt::format("rank {} and rank {} have different keys: Options::key, KOLO_KEY or the file of "
                      "KOLO_KEY_FILE must be the same on all ranks, and set on all or on none",
                      std::min(rank, peer), std::max(rank, peer)));
    }
    const auto& preferences = all[static_cast<std::size_t>(std::min(rank, peer))].transports;
    const auto& theirs = all[static_cast<std::size_t>(peer)].transports;
    bool reached = false;
    for (const Offered& preferred : preferences) {
      const auto own = offer.transports.find(preferred.name);
      const Offered* offered = own == offer.transports.end() ? nullptr : choose(*own->second, theirs);
      if (offered == nullptr) continue;
      chosen[preferred.name].push_back({peer, offered->address});
      reached = true;
      break;
    }
    if (!reached) {
      std::vector<std::string> here;
      std::vector<std::string> there;
      for (const Offered& o : all[static_cast<std::size_t>(rank)].transports) here.push_back(o.name);
      for (const Offered& o : theirs) there.push_back(o.name);
      fail_to_meet(fmt::format("rank {} and rank {} share no transport that reaches: {} here, {} there{}",
                               rank, peer, fmt::join(here, ", "), fmt::join(there, ", "), offer.why_not));
    }
  }

  std::vector<std::unique_ptr<transport::Endpoint>> endpoints(static_cast<std::size_t>(size));
  endpoints[static_cast<std::size_t>(rank)] = std::make_unique<transport::SelfEndpoint>();
  engine::OnDemand on_demand;
  engine::EngineOptions engine_options;
  for (const auto& [name, peers] : chosen) {
    std::unique_ptr<transport::Transport>& transport = offer.transports[name];
    if (transport::find_transport(name)->reach == transport::Reach::network) {
      if (on_demand.dialer)
        fail_to_meet(fmt::format("{} and {} both connect on demand", on_demand.transport->name(), name));
      for (const transport::TransportPeer& peer : peers)
        endpoints[static_cast<std::size_t>(peer.rank)] =
            std::make_unique<transport::UnconnectedEndpoint>(name);
      engine_options.network = transport->place();
      auto dialer = transport->dialer(rank, peers);
      on_demand = {std::move(transport), std::move(dialer)};
      continue;
    }
    auto made = transport::connect_all(*transport, rank, peers, deadline, is_gone);
    if (!made.ok())
      made.status().prefixed(fmt::format("rank {} could not connect over {}", rank, name)).throw_if_error();
    for (std::size_t i = 0; i < peers.size(); ++i) {
      endpoints[static_cast<std::size_t>(peers[i].rank)] = std::move((*made)[i]);
    }
  }
  for (const auto& endpoint : endpoints) log().debug("rank {}: {}", rank, endpoint->describe());

  engine_options.heartbeat = config().heartbeat;
  const Cores& own_cores = all[static_cast<std::size_t>(rank)].cores;
  engine_options.ranks_a_core =
      processes_a_core(own_cores, cores_beside(static_cast<std::size_t>(rank), all));
  const bool oversubscribed = engine_options.ranks_a_core > 1;
  log().debug("rank {}: cores {}{}", rank, to_text(own_cores), oversubscribed ? ", shared" : "");
  engine_options.spin = spin_time(endpoints, oversubscribed, own_cores.quota);
  engine_options.describe = &describe;
  Wireup wireup;
  number_hosts(all, wireup);
  wireup.cores = fewest_cores(all);
  for (const int host : wireup.hosts)
    engine_options.hosts.push_back(wireup.host_names[static_cast<std::size_t>(host)]);
  engine_options.timeline = terms.options.timeline;
  if (!engine_options.timeline && !config().timeline.empty())
    engine_options.timeline = std::make_shared<Timeline>();
  engine_options.observers = make_observers(rank, all[static_cast<std::size_t>(rank)].host_name,
                                            engine_options.hosts, endpoints, terms, engine_options.timeline);
  wireup.engine =
      engine::Engine::make(rank, std::move(endpoints), std::move(engine_options), std::move(on_demand));
  return wireup;
}

}  // namespace kolo::comm

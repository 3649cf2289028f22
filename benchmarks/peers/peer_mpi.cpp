// The same benchmark with MPI; built once with each MPI that is found.
#include "mpi_contestant.hpp"

namespace {

// "Open MPI v5.0.11, package: ..." or, on the first of many lines, "MPICH Version:      5.0.2".
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name;
  for (const char letter : std::string_view(text, static_cast<std::size_t>(length))) {
    if (letter == ',' || letter == '\n') break;
    const bool is_space = letter == ' ' || letter == '\t';
    if (!is_space || !name.ends_with(' ')) name += is_space ? ' ' : letter;
  }
  return name;
}

}  // namespace

int main(int argc, char** argv) {
  return kolo::bench::mpi_main<kolo::bench::MpiContestant>(argc, argv, library_name);
}

# Installing and packaging: filled in by cmake/install.cmake's owner.

# Thin front of CMake + Ninja. `make help` lists what there is.
BUILD ?= build
JOBS  ?= $(shell nproc)

.PHONY: all deps build configure everything test check fuzz bench demo dist install uninstall format clean help

all: build

help:
	@echo 'make           build build/pinprick and build/libpinprick.so (release)'
	@echo 'make deps      install the Debian packages that building and testing need'
	@echo 'make test      deps, build, run all tests'
	@echo 'make check     format, g++ and clang++ without warnings, tests under asan+ubsan and tsan, clang-tidy'
	@echo 'make fuzz       fuzz each reader of foreign bytes for SECONDS (60), needs clang'
	@echo 'make bench     measure, print a table, write build/bench/results.json'
	@echo 'make demo      probe a redis-server under load'
	@echo 'make dist      packages and an archive with a static program, in dist/'
	@echo 'make install   install to PREFIX (default /usr/local)'
	@echo 'make uninstall remove what make install left in PREFIX'

deps:
	@scripts/install-deps build

build: configure
	@cmake --build $(BUILD) -j $(JOBS) --target pinprick pinprick_shared

configure:
	@cmake --preset release -B $(BUILD) --log-level=WARNING

everything: configure
	@cmake --build $(BUILD) -j $(JOBS)

test:
	@scripts/install-deps build test
	@$(MAKE) --no-print-directory everything
	@cd $(BUILD) && ctest -j 2 --output-on-failure --timeout 600

check:
	@scripts/install-deps build test check
	@scripts/check

fuzz:
	@scripts/install-deps build test check
	@scripts/fuzz $(or $(SECONDS),60)

# Without LTTng, what it is compared with is left out.
bench:
	@scripts/install-deps build test
	-@scripts/install-deps bench
	@$(MAKE) --no-print-directory everything
	@scripts/bench $(BUILD)

demo:
	@scripts/install-deps build demo
	@$(MAKE) --no-print-directory configure
	@cmake --build $(BUILD) -j $(JOBS) --target pinprick
	@scripts/demo $(BUILD)/pinprick

dist:
	@scripts/install-deps build dist
	@scripts/dist

install: build
	@cmake --build $(BUILD) -j $(JOBS) --target pinprick_archive
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)
	@cp $(BUILD)/install_manifest.txt $(BUILD)/installed.txt

uninstall:
	@scripts/uninstall $(BUILD)

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:
	rm -rf $(BUILD)

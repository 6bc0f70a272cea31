/*
 * The whole of SPDK that pipeann uses, as a few plain functions: one environment for the process, and
 * for each SSD a controller, its first namespace and one queue pair. Nothing is allocated for a command,
 * and no thread is started here: who calls on a device is its poller, and nobody else.
 *
 * Errors are negative numbers of errno.h.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <spdk/env.h>
#include <spdk/nvme.h>
#include <spdk/version.h>

#if SPDK_VERSION < SPDK_VERSION_NUM(24, 1, 0)
#error "pipeann needs SPDK 24.01 or newer"
#endif

/* Commands that the driver is asked to hold; the controller may allow fewer. */
#define DEPTH 1024

struct pipeann_device {
	struct spdk_nvme_ctrlr *controller;
	struct spdk_nvme_ns *space;
	struct spdk_nvme_qpair *pair;
	uint32_t lba_bytes;
	uint32_t depth;
};

/* How a command ended: status code type and status code, both 0 where it went well. */
typedef void (*pipeann_ended)(void *context, uint64_t tag, uint8_t kind, uint8_t code);

/* What a completion needs to know; it is the caller's until the command has ended. */
struct pipeann_command {
	pipeann_ended ended;
	void *context;
	uint64_t tag;
};

int pipeann_spdk_start(const char *hugedir, int huge_pages, int memory_mib)
{
	struct spdk_env_opts options;

	memset(&options, 0, sizeof(options));
#if SPDK_VERSION >= SPDK_VERSION_NUM(24, 9, 0)
	options.opts_size = sizeof(options);
#endif
	spdk_env_opts_init(&options);
	options.name = "pipeann";
	options.mem_size = memory_mib;
	if (huge_pages) {
		options.hugedir = hugedir;
	} else {
		/* Devices behind a network need neither huge pages nor a PCI bus. */
		options.no_huge = true;
		options.no_pci = true;
	}
	return spdk_env_init(&options) < 0 ? -EINVAL : 0;
}

void *pipeann_spdk_allocate(uint64_t bytes)
{
	return spdk_zmalloc(bytes, 4096, NULL, SPDK_ENV_SOCKET_ID_ANY, SPDK_MALLOC_DMA);
}

void pipeann_spdk_free(void *memory)
{
	spdk_free(memory);
}

void pipeann_spdk_close(struct pipeann_device *device)
{
	if (device->pair != NULL) {
		spdk_nvme_ctrlr_free_io_qpair(device->pair);
	}
	if (device->controller != NULL) {
		spdk_nvme_detach(device->controller);
	}
	memset(device, 0, sizeof(*device));
}

/* Fills a zeroed device. */
int pipeann_spdk_open(struct pipeann_device *device, const char *transport)
{
	struct spdk_nvme_transport_id id;
	struct spdk_nvme_ctrlr_opts options;
	struct spdk_nvme_io_qpair_opts pair;
	uint32_t space;

	memset(&id, 0, sizeof(id));
	if (spdk_nvme_transport_id_parse(&id, transport) != 0) {
		return -EINVAL;
	}
	spdk_nvme_ctrlr_get_default_ctrlr_opts(&options, sizeof(options));
	device->controller = spdk_nvme_connect(&id, &options, sizeof(options));
	if (device->controller == NULL) {
		return -ENODEV;
	}
	space = spdk_nvme_ctrlr_get_first_active_ns(device->controller);
	device->space = space == 0 ? NULL : spdk_nvme_ctrlr_get_ns(device->controller, space);
	if (device->space == NULL) {
		pipeann_spdk_close(device);
		return -ENXIO;
	}
	/* The driver keeps the number of requests within what the controller allows (MQES). */
	spdk_nvme_ctrlr_get_default_io_qpair_opts(device->controller, &pair, sizeof(pair));
	pair.io_queue_size = pair.io_queue_size < DEPTH ? pair.io_queue_size : DEPTH;
	pair.io_queue_requests = 2 * pair.io_queue_size;
	device->depth = pair.io_queue_size - 1;
	device->pair = spdk_nvme_ctrlr_alloc_io_qpair(device->controller, &pair, sizeof(pair));
	if (device->pair == NULL) {
		pipeann_spdk_close(device);
		return -EIO;
	}
	device->lba_bytes = spdk_nvme_ns_get_sector_size(device->space);
	return 0;
}

void pipeann_spdk_geometry(struct pipeann_device *device, uint32_t *lba_bytes, uint64_t *bytes,
			   uint32_t *max_transfer_bytes, uint32_t *depth)
{
	*lba_bytes = device->lba_bytes;
	*bytes = spdk_nvme_ns_get_num_sectors(device->space) * device->lba_bytes;
	*max_transfer_bytes = spdk_nvme_ns_get_max_io_xfer_size(device->space);
	*depth = device->depth;
}

static void ended(void *argument, const struct spdk_nvme_cpl *completion)
{
	struct pipeann_command *command = argument;

	command->ended(command->context, command->tag, completion->status.sct, completion->status.sc);
}

/* Reads (0), writes (1) or flushes (2). -ENOMEM: take completions first. */
int pipeann_spdk_submit(struct pipeann_device *device, int action, uint64_t offset, uint32_t bytes,
			void *memory, struct pipeann_command *command)
{
	uint64_t lba = offset / device->lba_bytes;
	uint32_t blocks = bytes / device->lba_bytes;

	switch (action) {
	case 0:
		return spdk_nvme_ns_cmd_read(device->space, device->pair, memory, lba, blocks, ended,
					     command, 0);
	case 1:
		return spdk_nvme_ns_cmd_write(device->space, device->pair, memory, lba, blocks, ended,
					      command, 0);
	default:
		return spdk_nvme_ns_cmd_flush(device->space, device->pair, ended, command);
	}
}

/* Takes what has ended, which calls `ended` for each. */
int pipeann_spdk_poll(struct pipeann_device *device)
{
	return spdk_nvme_qpair_process_completions(device->pair, 0);
}

/* Keeps the controller alive, and tells whether it is. */
int pipeann_spdk_keep_alive(struct pipeann_device *device)
{
	int done = spdk_nvme_ctrlr_process_admin_completions(device->controller);

	return done < 0 || spdk_nvme_ctrlr_is_failed(device->controller) ? -ENXIO : 0;
}

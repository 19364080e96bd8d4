import { mountNamespaces } from "@berth/host/mount-namespaces"
import { ToolboxId } from "@berth/protocol/toolbox"

/** The toolboxes that some sandbox of any data directory has mounted, as the kernel tells it. */
export const mountedToolboxes = async (): Promise<ReadonlySet<ToolboxId>> => {
  const tables = await mountNamespaces()
  const named = tables.flatMap(({ mounts }) => mounts.match(/\btb-[0-9a-f]{40}\b/g) ?? [])
  return new Set(named.map((id) => ToolboxId.parse(id)))
}

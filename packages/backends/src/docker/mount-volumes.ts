import { readFileSync } from "node:fs"
import { run } from "@berth/host/run"
import { settleAll } from "@berth/host/settle-all"
import { BerthError } from "@berth/protocol/errors"
import type { Engine } from "./engine/engine.ts"
import { findVolume, removeVolume } from "./engine/volumes.ts"

/** Removes volumes that have no contents of their own: they only say what the engine is to mount. */
export interface MountVolumes {
  remove(name: string, signal: AbortSignal): Promise<void>
  /** Tries again to remove the volumes that the engine refused to. Called after the engine has restarted. */
  removeLeft(signal: AbortSignal): Promise<void>
}

/**
 * Engines before 23 count a volume's mounts wrongly after a restart with live-restore, and refuse to remove it until
 * their next start ("volume has active mounts"). Such a volume holds up nobody: the kernel, not the engine, tells
 * whether the files are free. So it is left, and removed when the engine was away, or by `repair`.
 */
export const openMountVolumes = (engine: Engine): MountVolumes => {
  const left = new Set<string>()
  const remove = async (name: string, signal: AbortSignal): Promise<void> => {
    const request = { method: "DELETE", path: `/volumes/${name}` } as const
    const { status } = await engine.ask(request, [204, 404, 500], signal)
    if (status !== 500) return void left.delete(name)
    await unmountLeft(engine, name, signal)
    left.add(name)
  }
  return {
    remove,
    removeLeft: async (signal) => {
      const removals = [...left].map(async (name) => {
        await removeVolume(engine, name, signal)
        left.delete(name)
      })
      await settleAll(removals)
    },
  }
}

/**
 * Unmounts a volume, since an engine that counts wrongly does not unmount either. The kernel keeps a mount that is in
 * use.
 */
const unmountLeft = async (engine: Engine, name: string, signal: AbortSignal): Promise<void> => {
  const mountpoint = (await findVolume(engine, name, signal))?.Mountpoint
  if (mountpoint === undefined || !isMounted(mountpoint)) return
  const { status, stderr } = await run(["umount", mountpoint], { signal })
  if (status === 0 || !isMounted(mountpoint)) return
  throw new BerthError("backend.mount_left", `${mountpoint} cannot be unmounted`, {
    details: { volume: name, path: mountpoint, systemSaid: stderr.trim() },
  })
}

const isMounted = (path: string): boolean =>
  readFileSync("/proc/self/mountinfo", "latin1").includes(` ${path} `)

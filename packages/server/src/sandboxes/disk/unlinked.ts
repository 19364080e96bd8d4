import { readFile, stat } from "node:fs/promises"
import type { FreeSpace } from "@berth/host/free-space"
import { type RunOptions, run } from "@berth/host/run"

/**
 * Lists regular files without a name that processes have open or mapped, each once, and adds up those of the given
 * devices. A program does it, since a sandbox decides how many descriptors there are.
 */
const ADD_UP = `
devices=$1; shift
find -L "$@" -maxdepth 1 -type f -links 0 -printf '%D %i %b\\n' 2>/dev/null |
  awk -v devices="$devices" '
    BEGIN { count = split(devices, each, " "); for (n = 1; n <= count; n++) isMeant[each[n]] = 1 }
    $1 in isMeant && !(($1, $2) in seen) { seen[$1, $2] = 1; files++; blocks += $3 }
    END { printf "%d %.0f\\n", files, 512 * blocks }'`

/** Deadline and priority of a measuring program. */
export interface How {
  readonly options: RunOptions
  /** The command that lowers the program's priority; empty: the normal one. */
  readonly priority: readonly string[]
}

/** Measures files that no name leads to, but that processes of a sandbox still have open: du finds none of them. */
export const measureUnlinked = async (
  dataDir: string,
  pids: readonly number[],
  { options, priority }: How,
): Promise<FreeSpace> => {
  const devices = await writableDevices(dataDir, pids)
  if (devices.length === 0) return { bytes: 0, inodes: 0 }
  const places = pids.flatMap((pid) => [`/proc/${pid}/fd`, `/proc/${pid}/map_files`])
  const script = ["sh", "-c", ADD_UP, "add-up", devices.join(" ")]
  const [program = "", ...rest] = [...priority, ...script, ...places]
  const { stdout } = await run([program, ...rest], options)
  const [inodes = 0, bytes = 0] = stdout.split(" ").map(Number)
  return { bytes, inodes }
}

/**
 * The devices of the disk itself and of the overlays that a sandbox has on it. File systems in memory are no part of
 * the disk.
 */
const writableDevices = async (dataDir: string, pids: readonly number[]): Promise<number[]> => {
  for (const pid of pids) {
    const text = await readFile(`/proc/${pid}/mountinfo`, "utf8").catch(() => "")
    if (text === "") continue
    const overlays = text.split("\n").flatMap((line) => overlayDevice(line) ?? [])
    return [(await stat(dataDir)).dev, ...new Set(overlays)]
  }
  return []
}

/** The device of a mount that is a writable overlay, as stat(2) reports it. */
const overlayDevice = (line: string): number | undefined => {
  const found = /^\d+ \d+ (\d+):(\d+) .* - overlay \S+ rw\b/.exec(line)
  if (found === null) return undefined
  const [major, minor] = [Number(found[1]), Number(found[2])]
  return (minor & 0xff) + major * 0x100 + (minor >> 8) * 0x100000
}

import { expect } from "vitest"
import type { Machine } from "../newcomer.ts"

/** Runs one command as a user without rights and without a home. */
const as = (group: string) =>
  `setpriv --reuid=nobody --regid=${group} --clear-groups env -u XDG_STATE_HOME -u XDG_CONFIG_HOME HOME=/nonexistent`

/** Runs a command where the data directory lies at the place of root's. */
const atSystemPlace = (dataDir: string) =>
  `unshare --mount sh -c 'mount -t tmpfs -o mode=755 none /var/lib && mkdir /var/lib/berth && mount --bind ${dataDir} /var/lib/berth && exec "$@"' sh`

/** A user of the machine who is not root, and root's server that a group may use. */
export const ordinaryUser = ({ journey }: Machine): void =>
  journey(
    "ordinary-user",
    "is told as an ordinary user that sandboxes need root, and uses root's server as a member of its group",
    async ({ dataDir, sees }) => {
      const doctor = await sees(`${as("nogroup")} berth doctor`, { status: 1 })
      expect(doctor).toMatch(/privileges.*who cannot run a server with embedded sandboxes/)
      expect(doctor).not.toContain("Berth runs on this host")
      expect(await sees(`${as("nogroup")} berth ps`, { status: 1 })).toContain("no server runs")
      expect(await sees(`${as("users")} berth status --data-dir ${dataDir}`)).toContain(
        "answers on",
      )
      await sees(`${as("nogroup")} berth status --data-dir ${dataDir}`, { status: 1 })
      const there = atSystemPlace(dataDir)
      expect(await sees(`${there} ${as("users")} berth status`)).toContain("answers on")
      await sees(`${there} ${as("nogroup")} berth status`, { status: 1 })
      expect(
        await sees("berth serve --data-dir ~/other --group no-such-group", { status: 2 }),
      ).toContain("this machine has no group no-such-group")
    },
  )

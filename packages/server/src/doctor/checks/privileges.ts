import type { Check } from "../tools/check.ts"

export const privileges: Check = {
  name: "privileges",
  why: "An embedded sandbox needs mounts, cgroups and network rules that only root may make.",
  onlyFor: "embedded",
  probe: async () => {
    const uid = process.geteuid?.() ?? 0
    if (uid === 0) return { status: "ok", found: "root", details: { uid } }
    return {
      status: "missing",
      found: `user ${uid}, who cannot run a server with embedded sandboxes`,
      fix: "run the server as root: sudo berth serve (with --group NAME, the members of a group may use it)",
      details: { uid },
    }
  },
}

import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { ID_BASE } from "./testing/bundles.ts"
import { openTestbed, type RuntimeName, type Testbed } from "./testing/run-inside.ts"

let bed: Testbed
beforeAll(async () => {
  bed = await openTestbed()
})
afterAll(() => bed.remove())

/** Every place inside where root can make a file, found by trying. */
const WRITABLE_PLACES = `for place in / /bin /boot /dev /dev/shm /dev/mqueue /etc /etc/ssl/certs /home /home/agent \
  /lib /mnt /opt /proc /proc/sys/kernel /root /run /sbin /srv /sys /sys/kernel /tmp /usr /usr/bin /usr/local \
  /var /var/lib /var/tmp /workspace /.berth /.berth/etc
do (: > $place/probe) 2>/dev/null && echo $place; done; true`

describe.each<RuntimeName>(["crun", "runc"])(
  "a sandbox on the host's system, under %s",
  (runtime) => {
    const inside = async (script: string, config?: Parameters<Testbed["inside"]>[2]) => {
      const { stdout, stderr, status } = await bed.inside(runtime, script, config)
      expect({ status, stderr }).toEqual({ status: 0, stderr: "" })
      return stdout.trim()
    }

    it("shares no namespace with the host", async () => {
      const kinds = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
      const theirs = await inside(
        `for kind in ${kinds.join(" ")}; do readlink /proc/self/ns/$kind; done`,
      )
      const { run } = await import("@berth/host/run")
      const ours = await Promise.all(
        kinds.map((kind) =>
          run(["readlink", `/proc/self/ns/${kind}`], { signal: AbortSignal.timeout(5_000) }),
        ),
      )
      const lines = theirs.split("\n")
      expect(lines).toHaveLength(kinds.length)
      for (const [index, { stdout }] of ours.entries()) expect(lines[index]).not.toBe(stdout.trim())
    })

    it("has the listed capabilities and no way to get others", async () => {
      const status = await inside("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
      expect(status.split(/\n/).map((line) => line.split(/\s+/))).toEqual([
        ["CapInh:", "0000000000000000"],
        ["CapPrm:", "00000000000000fb"],
        ["CapEff:", "00000000000000fb"],
        ["CapBnd:", "00000000000000fb"],
        ["CapAmb:", "0000000000000000"],
        ["NoNewPrivs:", "1"],
        ["Seccomp:", "2"],
      ])
    })

    it("sees only its own processes, the first of which is the init", async () => {
      const seen = await inside("read name < /proc/1/comm; set -- /proc/[0-9]*; echo $name $#")
      expect(seen).toBe("init 2")
    })

    it("writes to its own places and nowhere else", async () => {
      const places = await inside(WRITABLE_PLACES)
      expect(places.split("\n")).toEqual([
        "/dev",
        "/dev/shm",
        "/dev/mqueue",
        "/home",
        "/home/agent",
        "/root",
        "/run",
        "/tmp",
        "/var",
        "/var/lib",
        "/var/tmp",
        "/workspace",
      ])
    })

    it("cannot write to its files of /etc and /.berth, nor to the kernel's switches", async () => {
      const refused =
        await inside(`for file in /etc/hosts /etc/passwd /.berth/init /proc/sys/kernel/hostname \
      /proc/sysrq-trigger /proc/irq/default_smp_affinity /sys/kernel/uevent_helper
      do if [ -e $file ]; then (echo x > $file) 2>/dev/null && echo $file; fi; done; echo end`)
      expect(refused).toBe("end")
    })

    it("lets the agent's user write to its own places and nowhere else", async () => {
      const places = await inside(
        `setpriv --reuid 1000 --regid 1000 --clear-groups sh -c '${WRITABLE_PLACES}'`,
      )
      expect(places.split("\n")).toEqual([
        "/dev/shm",
        "/dev/mqueue",
        "/home/agent",
        "/tmp",
        "/var/tmp",
        "/workspace",
      ])
    })

    it("leaves files on a mount that belong to its ids on the host", async () => {
      const mine = join(bed.directory, `mine-${runtime}`)
      await mkdir(mine)
      await chmod(mine, 0o777)
      await inside(
        "touch /mnt/root; setpriv --reuid 1000 --regid 1000 --clear-groups touch /mnt/agent",
        {
          mounts: [{ kind: "directory", source: mine, target: "/mnt" }],
        },
      )
      expect((await stat(join(mine, "root"))).uid).toBe(ID_BASE)
      expect((await stat(join(mine, "agent"))).uid).toBe(ID_BASE + 1000)
    })

    it("mounts everything nosuid and, but for the devices, nodev", async () => {
      const table = await inside("cat /proc/self/mountinfo")
      const binds = table
        .split("\n")
        .map((line) => line.split(" "))
        .filter(([, , , , target = ""]) =>
          /^\/(usr|home|workspace|tmp|run|var|root|\.berth)/.test(target),
        )
      expect(binds.length).toBeGreaterThanOrEqual(8)
      for (const [, , , , target, flags = ""] of binds) {
        expect([target, flags.split(",")]).toEqual([
          target,
          expect.arrayContaining(["nosuid", "nodev"]),
        ])
      }
    })

    it("holds the system read-only by its mounts, not only by ownership", async () => {
      const table = await inside("cat /proc/self/mountinfo")
      const flags = new Map(
        table.split("\n").map((line) => [line.split(" ")[4], line.split(" ")[5]]),
      )
      for (const target of ["/", "/usr", "/.berth/etc", "/sys", "/proc/sys"]) {
        expect([target, flags.get(target)]).toEqual([target, expect.stringMatching(/^ro,/)])
      }
    })

    it("shows nothing of the host's accounts, keys, homes and names", async () => {
      const secret = join(bed.directory, "secret")
      await writeFile(secret, "secret")
      const found =
        await inside(`for path in /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh /etc/ssl/private \
      /etc/gitconfig /etc/npmrc /etc/pip.conf /etc/machine-id /etc/fstab /etc/environment ${secret} /boot \
      /var/lib/dpkg /var/log/dpkg.log /root/.bashrc /run/docker.sock; do [ -e $path ] && echo $path; done
      ls -A /root /home /run /tmp /workspace; hostname; cat /etc/hostname`)
      expect(found.split("\n")).toEqual([
        "/home:",
        "agent",
        "",
        "/root:",
        "",
        "/run:",
        "",
        "/tmp:",
        "",
        "/workspace:",
        "inside",
        "inside",
      ])
    })

    it("masks the files of /proc and /sys that tell of the host", async () => {
      const leaks =
        await inside(`for path in /proc/kcore /proc/keys /proc/kallsyms /proc/kmsg /proc/timer_list \
      /proc/sched_debug /proc/interrupts; do if [ -e $path ]; then wc -c < $path; fi; done
      for path in /proc/acpi /proc/scsi /proc/asound /sys/firmware /sys/devices/virtual/powercap \
      /sys/devices/virtual/dmi /sys/fs/cgroup; do if [ -e $path ]; then ls -A $path; fi; done`)
      expect(leaks.split("\n").filter((line) => line !== "0")).toEqual([])
    })

    it("reads the device nodes that programs expect", async () => {
      const seen =
        await inside(`head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo > /dev/null
      ls -l /dev/fd /dev/stdin /dev/ptmx | wc -l; ls /dev/sd* /dev/vd* /dev/mem /dev/kmsg 2>/dev/null | wc -l
      perl -e 'open(my $m, "+<", "/dev/ptmx") or die; print "pty\\n"'`)
      expect(seen.split("\n")).toEqual(["4", "4", "3", "0", "pty"])
    })

    it("knows its users, names and servers", async () => {
      const known =
        await inside(`id -un; id -u agent; echo ~agent; getent hosts inside; cat /etc/resolv.conf
      getent services https; stat -c %U /usr`)
      expect(known.replace(/[ \t]+/g, " ").split("\n")).toEqual([
        "root",
        "1000",
        "/home/agent",
        "127.0.1.1 inside",
        "nameserver 192.0.2.1",
        "https 443/tcp",
        "nobody",
      ])
    })

    it("runs the host's programs", async () => {
      const versions = await inside(`for tool in node npm git python3 perl openssl; do
      case $tool in openssl) openssl version;; *) $tool --version;; esac >/dev/null && echo $tool; done
      git init -q /workspace/repo && cd /workspace/repo && git config user.email a@b.c && git config user.name a \
      && git commit -q --allow-empty -m x && git log --format=%s
      test -s /etc/ssl/certs/ca-certificates.crt && echo certificates`)
      expect(versions.split("\n")).toEqual([
        "node",
        "npm",
        "git",
        "python3",
        "perl",
        "openssl",
        "x",
        "certificates",
      ])
    })

    it("bounds open files, core files and file systems in memory", async () => {
      const bounds = await inside(
        "ulimit -n; ulimit -Hn; ulimit -c; df -B1 --output=size /tmp /run /dev/shm /var | tail -n +2",
        { limits: { openFiles: 512, tmpBytes: 2 * 1024 * 1024 } },
      )
      const twoMib = `${2 * 1024 * 1024}`
      expect(bounds.split(/\s+/)).toEqual(["512", "512", "0", twoMib, twoMib, twoMib, twoMib])
    })

    it("reaches no network", async () => {
      expect(await inside("ls /sys/class/net; cat /proc/net/route | tail -n +2")).toBe("lo")
    })

    it("cannot change the mode of the host's devices", async () => {
      await inside("chmod 600 /dev/null /dev/zero 2>/dev/null; true")
      const { uid, mode } = await stat("/dev/null")
      expect(uid).not.toBe(ID_BASE)
      expect(mode & 0o777).toBe(0o666)
    })

    it("is the same under a strict umask of the server", async () => {
      const before = process.umask(0o077)
      const fresh = await openTestbed()
      try {
        const { stdout } = await fresh.inside(
          runtime,
          `setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'cat /etc/hostname; touch /tmp/x /workspace/x
        ls -d /opt/mounted /home/agent/.cache/*; node --version | cut -c1; umask'`,
          {
            mounts: ["/opt/mounted", "/home/agent/.cache/x"].map((target) => ({
              kind: "directory",
              source: "/usr/share",
              target,
              readOnly: true,
            })),
          },
        )
        expect(stdout.split("\n")).toEqual([
          "inside",
          "/home/agent/.cache/x",
          "/opt/mounted",
          "v",
          "0022",
          "",
        ])
      } finally {
        process.umask(before)
        await fresh.remove()
      }
    })

    it("fails with the command's own status", async () => {
      expect(await bed.inside(runtime, "echo no >&2; exit 7")).toEqual({
        status: 7,
        stdout: "",
        stderr: "no\n",
      })
    })
  },
)

describe("the testbed", () => {
  it("leaves the host's mounts as they were", async () => {
    expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(bed.directory)
  })
})

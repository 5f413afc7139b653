package machine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// A seed is three small files in the root of what could be a CD. It is written here, in the
// format of ECMA-119 with the Rock Ridge extension, which Linux and the BSDs always read:
// without it a file cannot be called "user-data".
//
// The library that there is for it in Go (github.com/kdomanski/iso9660) puts all files into
// the folder for temporary files first, where the password in them would outlive an agent
// that is killed; it writes the time of day into the image, so that no two are the same; it
// leaves out the table of paths that the format asks for; and it has the names right only
// as Linux does not check that those without Rock Ridge have no dash. A tool of the host's
// (genisoimage, xorriso) is one more package to install on each, and takes its files from
// a folder as well.

// sector is the unit of everything.
const sector = 2048

// Where things are, in sectors. The files follow.
const (
	atVolume = 16 + iota // after what is for a boot loader
	atEnd
	atPathsLittle
	atPathsBig
	atRoot
	atFiles
)

// isoFile is a file of an image.
type isoFile struct {
	// name is what it is called, plain what it is called where Rock Ridge is not known:
	// capitals, digits and underscores. Files are in the order of these.
	name, plain string
	data        []byte
}

// isoDate is when everything in an image is from: always the same.
const (
	isoYear = 2000
	isoDate = "2000010100000000" // of a volume, in digits, to hundredths of a second
)

// writeISO returns an image with that label and those files, which are few enough
// to have their directory fit into a sector.
func writeISO(label string, files []isoFile) []byte {
	size := atFiles
	for _, f := range files {
		size += sectors(f.data)
	}
	image := make([]byte, size*sector)
	at := func(n int) []byte { return image[n*sector:] }

	root := &bytes.Buffer{}
	self := record("\x00", atRoot, sector, true, rockBegin(), rockMode(0o40500), rockEnd())
	root.Write(self)
	root.Write(record("\x01", atRoot, sector, true, rockMode(0o40500)))
	next := atFiles
	for _, f := range files {
		root.Write(record(f.plain+".;1", next, len(f.data), false, rockMode(0o100400), rockName(f.name)))
		copy(at(next), f.data)
		next += sectors(f.data)
	}
	copy(at(atRoot), root.Bytes())

	copy(at(atVolume), volumeDescriptor(label, size, record("\x00", atRoot, sector, true)))
	copy(at(atEnd), "\xffCD001\x01")
	// The table of paths has the root alone: its name's length, sector, parent and name.
	copy(at(atPathsLittle), []byte{1, 0, atRoot, 0, 0, 0, 1, 0, 0, 0})
	copy(at(atPathsBig), []byte{1, 0, 0, 0, 0, atRoot, 0, 1, 0, 0})
	return image
}

func sectors(data []byte) int { return (len(data) + sector - 1) / sector }

// volumeDescriptor tells what is where on a volume.
func volumeDescriptor(label string, size int, root []byte) []byte {
	d := make([]byte, sector)
	text := func(from, to int, s string) { copy(d[from:to], s+strings.Repeat(" ", to-from-len(s))) }
	copy(d, "\x01CD001\x01")
	text(8, 40, "LINUX")
	text(40, 72, label)
	copy(d[80:], both32(size))
	copy(d[120:], both16(1)) // of one volume
	copy(d[124:], both16(1)) // the first
	copy(d[128:], both16(sector))
	copy(d[132:], both32(10)) // bytes of the table of paths
	binary.LittleEndian.PutUint32(d[140:], atPathsLittle)
	binary.BigEndian.PutUint32(d[148:], atPathsBig)
	copy(d[156:190], root)
	text(190, 813, "") // who made it, and with what
	for from, date := range map[int]string{813: isoDate, 830: isoDate, 847: strings.Repeat("0", 16), 864: isoDate} {
		copy(d[from:], date)
	}
	d[881] = 1
	return d
}

// record is what a directory tells of a file, with what Rock Ridge adds.
func record(name string, at, size int, directory bool, rock ...[]byte) []byte {
	var flags byte
	if directory {
		flags = 2
	}
	r := &bytes.Buffer{}
	r.Write([]byte{0, 0}) // the length, once it is known
	r.Write(both32(at))
	r.Write(both32(size))
	r.Write([]byte{isoYear - 1900, 1, 1, 0, 0, 0, 0, flags, 0, 0})
	r.Write(both16(1)) // volume
	fmt.Fprintf(r, "%c%s", len(name), name)
	even(r)
	for _, entry := range rock {
		r.Write(entry)
	}
	even(r)
	r.Bytes()[0] = byte(r.Len())
	return r.Bytes()
}

func even(r *bytes.Buffer) {
	if r.Len()%2 == 1 {
		r.WriteByte(0)
	}
}

// rock is an entry of Rock Ridge's.
func rock(kind string, data []byte) []byte {
	return append([]byte{kind[0], kind[1], byte(4 + len(data)), 1}, data...)
}

// rockBegin says that there is Rock Ridge, rockEnd which one.
func rockBegin() []byte { return rock("SP", []byte{0xbe, 0xef, 0}) }

func rockEnd() []byte {
	const id = "RRIP_1991A"
	return rock("ER", append([]byte{byte(len(id)), 0, 0, 1}, id...))
}

func rockName(name string) []byte { return rock("NM", append([]byte{0}, name...)) }

// rockMode is a file's mode, number of links, user and group: it is root's, as there is a
// password in it.
func rockMode(mode int) []byte {
	return rock("PX", bytes.Join([][]byte{both32(mode), both32(1), both32(0), both32(0)}, nil))
}

// Numbers are in both orders of bytes.
func both16(n int) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(n))
	return binary.BigEndian.AppendUint16(b, uint16(n))
}

func both32(n int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(n))
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

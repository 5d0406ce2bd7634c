"""Slow lines that read: files that are opened, parsed or read anew for each sample, and what is read in vain.

Where no source is given, the other way does less by what the line says: it is done once, or for all at a time.
"""

from __future__ import annotations

import re

from pipebench.watch.read.known_row import Known

_NAMED = r"(?:self\.\w+|[rR]?'[^'{}%]+'|[rR]?\"[^\"{}%]+\")"  # a file that has one name
_CONSTANT = r"(?<![\w.])[A-Z][A-Z0-9_]*(?![\w.(\[])"  # a name of the module, as such names are written
_SAME = rf"(?:{_NAMED}|{_CONSTANT})"
_ONE = (  # the same, or made of such names: `ROOT + 'a.zip'`, `os.path.join(self.root, "a.zip")`
    rf"(?:{_SAME}(?:\s*[+/]\s*{_SAME})?|(?:os\.)?(?:path\.)?join\(\s*{_SAME}\s*,\s*{_SAME}\s*\))"
)
_FILE = rf"\(\s*{_ONE}\s*[,)]"
_PARTLY = r"(?![^#]*\b(?:chunksize|iterator|skiprows|nrows)\b)"
_SELECT = r"\.execute\(\s*[rf]*(?:\"\"\"|'''|['\"])\s*select\b"
_SLOW_S = 1e-3  # an index finds a row, and a chunk without compression is read, in tens of microseconds
_GROUP_S = 5e-4  # a group of 64 rows is read in 0.13 ms (2 columns) to 0.32 ms (30), one of 1000 in 0.9 ms
_QUERIES = (
    "execute", "fetchall", "fetchone", "fetchmany", "cursor", "dict", "str",
    "frombuffer", "from_numpy", "bytearray", "bytes", "memoryview", "BytesIO",
    "connection", "_connection", "get_connection", "conn", "_conn", "get_conn", "db", "_db", "get_db",
)  # fmt: skip
_COLUMN = r"\.(?:column|field)\([^()]*\)"
_ONE_ROW = r"(?:\[(?!\s*['\"])[^\]:]+\]|\.slice\([^(),]+,\s*1\s*\)|\.take\(\s*\[[^\],]+\]\s*\))(?![^\n]*\bfor\b)"
_GROUP = (
    "The whole row group is read and unpacked for one row. Write the file once with small row",
    "groups (row_group_size=64), or save the rows so that one is read by its place: as .npy with",
    "mmap_mode='r', in LMDB, or as an Arrow file that is mapped.",
)
OPENED = Known(  # docs.python.org/3/library/zipfile.html: each opening reads the directory anew
    re.compile(
        rf"\b(?:h5py\.File|zarr\.open(?:_group|_array|_consolidated)?|tarfile\.open|(?:zipfile\.)?ZipFile"
        rf"|sqlite3\.connect|lmdb\.open|xr\.open_(?:dataset|zarr)|netCDF4\.Dataset|rasterio\.open|pq\.ParquetFile){_FILE}"
    ),
    "the file opened once in each worker",
    (
        "The same file is opened for each sample. Open it at the first sample of a worker",
        "(if self.file is None: self.file = ...), and keep it open.",
    ),
    r"h5py\.File|zarr\.|tarfile\.TarFile\.(?:open|\w+open|__init__)|zipfile\.ZipFile\.__init__|xarray\.|pyarrow\.|rasterio\.",
    same=True,
    alone=("The same file is opened again and again. Open it once, before the loop.",),
)
REDUCED = Known(  # docs.opencv.org/4.x/d8/d6a/group__imgcodecs__flags.html; a JPEG needs less work then, a PNG as much
    re.compile(""),
    "JPEGs decoded at a reduced size",
    (
        "They are made smaller at once. cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_{by}) gives {part} of",
        "the size for less, and the resize after it is cheaper. Pixels differ a little, and what is",
        "computed from an image's size, as the scale of boxes, needs the full one. Where they fit into",
        "memory, keep the small images.",
    ),
)
INDEX = Known(  # sqlite.org/eqp.html, table and index scans
    re.compile(rf"{_SELECT}[^#]*\bwhere\s+(?!(?:\w+\.)?(?:row)?id\s*=)(?![^#]*\boffset\b)", re.IGNORECASE),
    "an index on the columns of WHERE",
    (
        "This helps only where no index has them: the database then compares all rows of the table",
        "for each sample, and SQLite's EXPLAIN QUERY PLAN says SCAN. Once: CREATE INDEX name ON",
        "table(column). Or read all rows once, into arrays.",
    ),
    most=0,
    beside=_QUERIES,
    least_s=_SLOW_S,
    where="no index has the columns of WHERE",
)
PLANNED = INDEX._replace(beside=(*_QUERIES, "loads", "array", "asarray", "tensor", "as_tensor"))
"""The same, where a line does more with the rows: told only where SQLite says that it scans."""
SCANS = INDEX._replace(
    title="an index for the columns of WHERE",
    how=(
        "SQLite's EXPLAIN QUERY PLAN says SCAN: it compares all rows of the table for each sample. Once:",
        "CREATE INDEX name ON table(column). Or read all rows once, into arrays.",
    ),
    where="",
)
FILES = (
    Known(  # `CvCapture_FFMPEG::seek` goes back to a key frame and grabs (modules/videoio/src/cap_ffmpeg_impl.hpp)
        re.compile(r"\.set\(\s*(?:\w+\.)*CAP_PROP_POS_(?:FRAMES|MSEC)\b"),
        "frames read on, without seeking",
        (
            "A seek decodes again from the key frame before it. Seek once, to the first frame of",
            "a clip, and read on from there; grab() passes over a frame that is not needed.",
        ),
        begins=True,
    ),
    Known(  # github.com/numpy/numpy/issues/28795
        re.compile(r"\bnp\.load\((?=[^#]*\.npz)(?=[^#]*mmap_mode)"),
        "arrays in .npy files",
        (
            "np.load ignores mmap_mode for .npz: the whole array is read and unpacked. Save each",
            "array as .npy once; with mmap_mode='r', only the part that is used is read.",
        ),
        r"numpy\.",
        most=None,
        anywhere=True,
    ),
    Known(  # numpy.org/doc/stable/reference/generated/numpy.load.html: an array is read when its key is asked for
        re.compile(r"^(?![^#]*\bload\()[^#]*\bself\.\w+\[[^\]]+\]"),
        "arrays taken out of the archive once",
        (
            "An archive that np.load keeps open reads and unpacks the whole array each time that its",
            "key is asked for. Take the arrays out when the dataset is made, or save each as .npy and",
            "open it with mmap_mode='r'.",
        ),
        r"numpy\.(?:\w+\.)*NpzFile\.__getitem__$",
        most=None,
    ),
    Known(
        re.compile(
            rf"(?<![\w.])(?:(?:json|pickle|yaml)\.(?:safe_)?load\(\s*(?:(?:io|gzip|bz2)\.)?open"
            rf"|(?:pd|pandas)\.read_(?:csv|json|parquet|excel|pickle|table)(?=\({_PARTLY})"
            rf"|(?:ET|etree|ElementTree|minidom)\.parse|(?:scipy\.io\.)?loadmat|np\.(?:loadtxt|genfromtxt)"
            rf"|torch\.load){_FILE}"
            rf"|\bnp\.load{_FILE}[^#\[]*\[\s*['\"]"
            rf"|\bjson\.loads\(\s*(?:open{_FILE}[^#]*?\.read\(\)|(?:(?:pathlib\.)?Path\(\s*)?{_NAMED}\s*\)?\.read_(?:text|bytes)\()"
        ),
        "the file read once",
        (
            "The same file is read and parsed for each sample. Do it once, when the dataset is made,",
            "and index what it gave: best in arrays, which workers share.",
        ),
        r"json\.|yaml\.|pandas\.|xml\.|scipy\.|numpy\.|torch\.load|pickle\.|codecs\.",
        beside=("open", "read"),
        same=True,
        alone=("The same file is read and parsed again and again. Do it once, before the loop.",),
    ),
    Known(
        re.compile(rf"\bopen{_FILE}[^#]*?(?:\.readlines\(\)|\.read\(\)\.split(?:lines)?\([^()]*\))\s*\["),
        "a line by its place in the file",
        (
            "The whole file is read for one line. Keep the place of each line once, by f.tell() before",
            "each f.readline(); a sample then needs f.seek(place) and f.readline().",
        ),
        r"codecs\.",
        most=0,
        beside=("open", "read", "readlines", "split", "splitlines"),
        same=True,
    ),
    OPENED,
    Known(  # docs.python.org/3/library/tarfile.html: `getmember` goes through the headers, of which there is no index
        re.compile(r"\.(?:extractfile|getmember|getmembers|getnames)\("),
        "members of a tar by their places",
        (
            "A tar has no index: all headers are read, or gone through, to find a name. Once, keep",
            "{m.name: (m.offset_data, m.size) for m in tar}; a sample then needs seek and read of",
            "the plain file. Of a compressed tar, unpack it first.",
        ),
        r"tarfile\.TarFile\.(?:extractfile|getmember|getmembers|getnames|_getmember|_load)$",
        most=None,
    ),
    Known(  # docs.h5py.org/en/stable/high/dataset.html: slices are read from the disk, and only they
        re.compile(r"\[\s*[rR]?['\"][^'\"]+['\"]\s*\]\s*\[\s*(?::|\.\.\.|\(\))\s*\]\s*\["),
        "only the part that is used",
        ("The whole array is read before it is indexed. Index the file's own array: f[name][index].",),
        r"h5py\.|zarr\.",
        most=None,
        anywhere=True,
    ),
    Known(  # docs.h5py.org/en/stable/high/dataset.html#chunked-storage: a chunk is read and unpacked as a whole
        re.compile(r"\["),
        "chunks that hold what a sample reads",
        (
            "This helps only where dataset.chunks hold more than a sample reads, or are compressed: HDF5",
            "and Zarr read and unpack whole chunks. Then save it once with chunks of one sample, or as",
            ".npy: with mmap_mode='r', only the part that is used is read.",
        ),
        r"h5py\.Dataset\.__getitem__$|zarr\.(?:\w+\.)*(?:Async)?Array\.__getitem__$",
        most=None,
        least_s=_SLOW_S,
        where="chunks hold more than a sample reads, or are compressed",
    ),
    Known(  # arrow.apache.org/docs/python/parquet.html: a row group is the least that is read, and unpacked as a whole
        re.compile(r"(?<![\w.])(\w+)\s*=(?!=)[^#]*\.read_row_group\("),
        "rows read without the rest of their group",
        _GROUP,
        r"pyarrow\.",
        begins=True,
        every=rf"(?<![\w.])NAME(?:{_COLUMN}|\[\s*(?:'[^']*'|\"[^\"]*\")\s*\])?{_ONE_ROW}",
        least_s=_GROUP_S,
    ),
    Known(
        re.compile(rf"\.read_row_group\([^()]*\)(?:{_COLUMN})?{_ONE_ROW}"),
        "rows read without the rest of their group",
        _GROUP,
        r"pyarrow\.",
        least_s=_GROUP_S,
    ),
    INDEX,
    PLANNED,
    Known(  # sqlite.org/rowvalue.html, scrolling window queries: rows before the offset are computed, too
        re.compile(rf"{_SELECT}[^#]*\boffset\s*[?:%{{$+]", re.IGNORECASE),
        "rows found by their key",
        (
            "OFFSET steps over all rows before the one that is read. Once, take the keys of all rows",
            "(SELECT id FROM table); a sample then has WHERE id = ?.",
        ),
        most=0,
        beside=_QUERIES,
        least_s=_SLOW_S,
    ),
    Known(
        re.compile(rf"\bnp\.load\(\s*{_NAMED}\s*\)\s*\[\s*(?!None\b)\w+\s*\]"),
        "a file that is mapped",
        (
            "np.load reads the whole array of a .npy before it is indexed. With mmap_mode='r', only the",
            "part that is used is read.",
        ),
        r"numpy\.load$",
        most=None,
        same=True,
        anywhere=True,
    ),
    Known(  # nipy.org/nibabel/images_and_memory.html
        re.compile(r"\.get_fdata\([^)]*\)\s*\[(?!\s*(?:None|np\.newaxis|\.\.\.))"),
        "a part of the volume",
        (
            "get_fdata() reads and scales the whole volume. img.dataobj[..., k] reads a part of an",
            "uncompressed .nii; a .nii.gz has to be unpacked up to there, so unpack it once.",
        ),
        r"nibabel\.",
        most=None,
    ),
    Known(  # a file of text for each sample, such as a point cloud
        re.compile(rf"\b(?:np\.(?:loadtxt|genfromtxt)|(?:pd|pandas)\.read_csv)\({_PARTLY}"),
        "files that need no parsing",
        (
            "Numbers are parsed from text in each pass. Save each file as .npy once (a table with",
            "texts as .parquet), and load that.",
        ),
        r"numpy\.(?:loadtxt|genfromtxt)|pandas\.read_csv$",
        most=None,
        same=True,
    ),
    Known(
        re.compile(
            r"\b(?:os\.(?:listdir|scandir|walk)|i?glob\.i?glob|glob)\(|\.(?:iterdir|r?glob)\(",
        ),
        "folders listed once",
        ("A folder is listed for each sample. List it once, when the dataset is made.",),
        r"glob\.|pathlib\.|os\.walk",
        beside=("join", "sorted", "Path", "str", "natsorted"),
        same=True,
    ),
)
